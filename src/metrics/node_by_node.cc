#include "metrics/node_by_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "quantization/arithmetic/arithmetic.h"

namespace seqto::internal {

NodeByNode::NodeByNode(const Model& model, Runner& runner, Seen seen, Compute compute)
    : model_(model), runner_(runner), seen_(std::move(seen)), compute_(std::move(compute)) {
  for (const ValueInfo& input : model.graph.free_inputs()) input_names_.push_back(input.name);
  for (const ValueInfo& output : model.graph.outputs) output_names_.push_back(output.name);
  std::unordered_map<std::string, const Initializer*> constants;
  for (const Initializer& i : model.graph.initializers) constants[i.name] = &i;
  for (const Node& node : model.graph.nodes) {
    Step& step = steps_.emplace_back();
    step.node = &node;
    std::unordered_set<std::string> known;
    const auto take = [&](const std::string& name) {
      if (name.empty() || !known.insert(name).second) return;
      if (const auto constant = constants.find(name); constant != constants.end())
        step.constants.push_back(constant->second);
      else step.reads.push_back(name);
    };
    std::ranges::for_each(node.inputs, take);
    for (const Attribute& a : node.attributes)
      if (const auto* body = std::get_if<OpaqueAttribute>(&a.value)) std::ranges::for_each(body->captures, take);
  }
  std::unordered_set<std::string> needed(output_names_.begin(), output_names_.end());
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step)
    for (size_t i = 0; i < step->reads.size(); ++i)
      if (needed.insert(step->reads[i]).second) step->last_read.push_back(i);
}

std::unique_ptr<Session> NodeByNode::load(const Step& step, std::span<const Tensor> inputs) const {
  Model one{.ir_version = model_.ir_version, .opsets = model_.opsets};
  one.rest = model_.rest;  // functions
  one.graph.name = "node";
  one.graph.nodes = {*step.node};
  for (const Initializer* constant : step.constants) one.graph.initializers.push_back(*constant);
  for (size_t i = 0; i < inputs.size(); ++i)
    one.graph.inputs.push_back({step.reads[i], inputs[i].type(), std::nullopt, {}});
  for (const std::string& output : step.node->outputs)
    if (!output.empty()) one.graph.outputs.push_back({output, DataType::kUndefined, {}, ""});
  return runner_.load(one, {.optimization = SessionOptions::Optimization::kNone});
}

std::vector<Tensor> NodeByNode::run(std::span<const Tensor> inputs) {
  std::unordered_map<std::string, Tensor> values;
  for (size_t i = 0; i < input_names_.size(); ++i) values[input_names_[i]] = inputs[i];
  for (const Initializer& i : model_.graph.initializers)
    if (std::ranges::count(output_names_, i.name) > 0) values[i.name] = i.tensor;
  for (Step& step : steps_) {
    std::vector<Tensor> read;
    for (const std::string& name : step.reads) read.push_back(values.at(name));
    std::vector<Tensor> made;
    if (auto computed = compute_ ? compute_(*step.node, read) : std::nullopt) {
      made.push_back(std::move(*computed));
    } else {
      if (!step.session) step.session = load(step, read);
      made = step.session->run(read);
    }
    if (seen_) seen_(*step.node, made);
    for (size_t i = 0, o = 0; i < step.node->outputs.size(); ++i)
      if (!step.node->outputs[i].empty()) values[step.node->outputs[i]] = made[o++];
    for (const size_t i : step.last_read) values.erase(step.reads[i]);
  }
  std::vector<Tensor> outputs;
  for (const std::string& name : output_names_) outputs.push_back(values.at(name));
  return outputs;
}

bool is_finite(const Tensor& tensor) {
  return !tensor.is_float() || std::ranges::all_of(to_floats(tensor), [](float v) { return std::isfinite(v); });
}

std::string first_not_finite(const Model& model, Runner& runner, std::span<const Tensor> inputs) {
  const std::vector<ValueInfo> wanted = model.graph.free_inputs();
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].type() != wanted[i].type) return {};  // the mark of a state, whose values are not in the sample
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!is_finite(inputs[i])) return fmt::format("the input '{}'", wanted[i].name);
  std::string found;
  NodeByNode session(model, runner, [&](const Node& node, std::span<const Tensor> outputs) {
    size_t made = 0;
    for (const std::string& name : node.outputs) {
      if (name.empty() || is_finite(outputs[made++]) || !found.empty()) continue;
      found = fmt::format("{} '{}', whose output '{}' is the first", node.op_type, node.name, name);
    }
  });
  session.run(inputs);
  return found;
}

}  // namespace seqto::internal
