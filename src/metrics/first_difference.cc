#include "metrics/first_difference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "model/sort_nodes.h"

namespace seqto::internal {

bool is_code(DataType type) {
  return type == DataType::kUint8 || type == DataType::kInt8 || type == DataType::kUint16 || type == DataType::kInt16;
}

bool is_value(DataType type) {
  return type == DataType::kFloat || type == DataType::kFloat16 || type == DataType::kDouble ||
         type == DataType::kBfloat16 || is_code(type);
}

std::vector<Between> tensors_between(const Graph& graph) {
  std::unordered_set<std::string> reached;
  for (const ValueInfo& v : graph.free_inputs()) reached.insert(v.name);
  const auto depends = [&](const Node& node) {
    bool any = false;
    for_each_read(node, [&](const std::string& name) { any |= reached.contains(name); });
    return any;
  };
  std::vector<Between> result;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!depends(graph.nodes[n])) continue;
    for (const std::string& output : graph.nodes[n].outputs)
      if (!output.empty() && reached.insert(output).second) result.push_back({n, output, {}});
  }
  return result;
}

Model up_to(const Model& model, std::span<const Between> tensors) {
  Model result = model;
  result.graph.outputs.clear();
  std::vector<std::string> names;
  for (const Between& t : tensors) {
    result.graph.outputs.push_back({t.name, DataType::kUndefined, {}, ""});
    names.push_back(t.name);
  }
  keep_ancestors(result.graph, names);
  drop_unused_initializers(result.graph);
  return result;
}

double relative_error(const Tensor& wanted, const Tensor& found, double origin) {
  if (!is_value(wanted.type())) return 0;
  if (wanted.dims() != found.dims()) return std::numeric_limits<double>::infinity();
  double difference = 0, power = 0;
  for (int64_t i = 0; i < wanted.element_count(); ++i) {
    const double a = element(wanted, i), b = element(found, i);
    if (a == b || (std::isnan(a) && std::isnan(b))) {
      if (std::isfinite(a)) power += (a - origin) * (a - origin);
      continue;
    }
    if (!std::isfinite(a) || !std::isfinite(b)) return std::numeric_limits<double>::infinity();
    difference += (a - b) * (a - b), power += (a - origin) * (a - origin);
  }
  if (difference == 0) return 0;
  return power > 0 ? difference / power : std::numeric_limits<double>::infinity();
}

namespace {

constexpr size_t kMostBytes = size_t{256} << 20;  // of the run's tensors at once

std::vector<Tensor> values_of(const Model& model, std::span<const Between> tensors, Runner& runner,
                              const std::vector<Tensor>& inputs, const Env& env) {
  env.stop_if_cancelled("validate");
  return runner.load(up_to(model, tensors), {.optimization = SessionOptions::Optimization::kNone})->run(inputs);
}

// Of the tensors of one node the first that differs, a float before a code: the scale of DynamicQuantizeLinear.
std::optional<FirstDifference> first_of(const Model& model, std::span<const Between> tensors,
                                        const std::vector<Tensor>& together, const Together& run, size_t place) {
  std::optional<FirstDifference> first;
  size_t of_node = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Between& t = tensors[i];
    if (first && t.node != of_node) break;
    if (first && is_code(t.value.type())) continue;
    const auto part = own_part(together[i], t.value, run, place);
    const auto difference = part ? difference_of(t.value, *part) : std::nullopt;
    if (!difference) continue;
    const Node& node = model.graph.nodes[t.node];
    const bool is_float = !is_code(t.value.type());
    first = {node.name, node.op_type, t.name, run.samples[place]->name, difference->max_abs, difference->largest_abs};
    of_node = t.node;
    if (is_float) break;
  }
  return first;
}

}  // namespace

std::optional<FirstDifference> first_difference(const Model& model, Runner& alone, const InRun& in_run,
                                                const Env& env) {
  const Together& run = in_run.run;
  std::vector<Between> tensors = tensors_between(model.graph);
  if (tensors.empty()) return {};
  const Alone& sample = *run.samples[in_run.place];
  std::vector<Tensor> values = values_of(model, tensors, alone, sample.inputs, env);
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].value = std::move(values[i]);
  std::erase_if(tensors, [](const Between& t) { return !is_value(t.value.type()); });
  const std::vector<Tensor> inputs = stacked_inputs(run);
  const size_t longer =
      sample.positions > 0 ? static_cast<size_t>((run.positions + sample.positions - 1) / sample.positions) : 1;
  for (size_t begin = 0, end = 0; begin < tensors.size(); begin = end) {
    size_t bytes = 0;
    while (end < tensors.size() && (bytes < kMostBytes || tensors[end].node == tensors[end - 1].node))
      bytes += tensors[end++].value.bytes().size() * run.samples.size() * longer;
    const std::span part(tensors.data() + begin, end - begin);
    if (auto found = first_of(model, part, values_of(model, part, *in_run.runner, inputs, env), run, in_run.place))
      return found;
  }
  return {};
}

}  // namespace seqto::internal
