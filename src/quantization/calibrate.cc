#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "model/sort_nodes.h"
#include "quantization/marks.h"
#include "seqto/error.h"
#include "seqto/quantize.h"

namespace seqto {
namespace {

std::vector<std::string> observed_tensors(const Model& model, const std::vector<std::string>& op_types) {
  internal::GraphIndex index(model);
  std::unordered_set<std::string> types(op_types.begin(), op_types.end()), seen;
  std::vector<std::string> tensors;
  for (const Node& node : model.graph.nodes) {
    if (!types.contains(node.op_type)) continue;
    for (const auto* names : {&node.inputs, &node.outputs})
      for (const auto& name : *names)
        if (index.is_float(name) && !index.is_initializer(name) && seen.insert(name).second) tensors.push_back(name);
  }
  return tensors;
}

// The model with one more output for every tensor: its smallest and largest value, found where the tensor is, so that
// no activation leaves the runtime and memory stays flat.
Model with_extremes(const Model& model, const std::vector<std::string>& tensors) {
  Model result = model;
  internal::GraphIndex index(model);
  for (const auto& tensor : tensors)
    for (const char* op : {"ReduceMin", "ReduceMax"}) {
      std::string output = tensor + "_" + op;
      Node node{output, op, "", {tensor}, {output}, {}, {}};
      node.set_attribute({"keepdims", int64_t{0}});
      result.graph.nodes.push_back(std::move(node));
      result.graph.outputs.push_back({output, index.types.at(tensor), std::vector<Dimension>{}, ""});
    }
  internal::sort_nodes(result.graph);
  return result;
}

}  // namespace

Ranges calibrate(const Model& model, const Dataset& data, std::span<const int64_t> samples, Runner& runner,
                 const CalibrateOptions& options, const Env& env) {
  auto tensors = observed_tensors(model, options.op_types.empty() ? default_op_types() : options.op_types);
  auto session = runner.load(with_extremes(model, tensors), {SessionOptions::Optimization::kNone});
  size_t first = session->output_names().size() - 2 * tensors.size();
  std::vector<Range> found(tensors.size(),
                           {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()});
  int64_t done = 0;
  for (int64_t index : samples) {
    env.stop_if_cancelled("calibrate");
    Sample sample = data.read(index);
    auto outputs = session->run(sample.inputs);
    for (size_t t = 0; t < tensors.size(); ++t) {
      float low = static_cast<float>(element(outputs[first + 2 * t], 0));
      float high = static_cast<float>(element(outputs[first + 2 * t + 1], 0));
      if (!std::isfinite(low) || !std::isfinite(high))
        throw Error(
            Code::kInvalidInput,
            fmt::format("[calibrate] tensor '{}' holds {} for sample '{}'; finite values were expected; check the "
                        "model and the preprocessing",
                        tensors[t], std::isnan(low) || std::isnan(high) ? "NaN" : "infinity", sample.name));
      found[t].lowest = std::min(found[t].lowest, low);
      found[t].highest = std::max(found[t].highest, high);
    }
    env.progress({"calibrate", ++done, static_cast<int64_t>(samples.size()), ""});
  }
  Ranges ranges;
  for (size_t t = 0; t < tensors.size(); ++t) ranges[tensors[t]] = found[t];
  return ranges;
}

}  // namespace seqto
