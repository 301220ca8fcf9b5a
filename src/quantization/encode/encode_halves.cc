#include "quantization/encode/encode_halves.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "model/bodies.h"
#include "model/graph_view.h"
#include "model/op_traits.h"
#include "quantization/arithmetic/halves.h"

namespace seqto::internal {
namespace {

// They give the same values whether they run before or after rounding to float16.
bool is_exact(const Node& node) { return node.domain.empty() && has(node, kExactInHalf); }

class Encoder {
 public:
  Encoder(const Model& model, const Float16Options& options, WeightCache& cache)
      : graph_(model.graph), view_(model), options_(options), cache_(cache) {}

  Encoding run(const LayerSet& layers) {
    find_variables(layers);
    join_exact_layers();
    for (size_t i = 0; i < selected_.size(); ++i)
      if (!selected_[i]) variables_[i].clear();
    result_.halves = EncodedHalves{std::move(variables_), {}, {}};
    find_float_reads();
    find_inputs_outputs();
    encode_constants();
    return std::move(result_);
  }

 private:
  // --- which nodes compute in float16

  bool is_float(const std::string& tensor) const {
    if (floats_.contains(tensor)) return true;
    auto it = view_.types.find(tensor);
    return it != view_.types.end() && it->second == DataType::kFloat;
  }

  // The type variables of a node that are float now and may become float16.
  std::vector<TypeVariable> float_variables(const Node& node) const {
    if (has(node, kPair) || has_body(node)) return {};
    auto variables = float16_variables(node, view_.opset);
    std::erase_if(variables, [&](const TypeVariable& v) {
      return !std::all_of(v.inputs.begin(), v.inputs.end(), [&](size_t i) { return is_float(node.inputs[i]); });
    });
    return variables;
  }

  bool is_blocked(const Node& node) const {
    const auto& blocked = options_.op_block_list;
    return std::find(blocked.begin(), blocked.end(), node.op_type) != blocked.end();
  }

  void find_variables(const LayerSet& layers) {
    for (const Node& node : graph_.nodes) {
      if (const Tensor* value = constant_value(node); value && value->type() == DataType::kFloat)
        floats_.insert(node.outputs[0]);
      if (is_dequantize(node) && node.inputs.size() > 1 && is_float(node.inputs[1])) floats_.insert(node.outputs[0]);
      auto variables = float_variables(node);
      // Shape inference may have given up; what a float goes into comes out as float.
      for (const TypeVariable& v : variables)
        for (size_t o : v.outputs) floats_.insert(node.outputs[o]);
      bool gives_float =
          std::any_of(variables.begin(), variables.end(), [](const auto& v) { return !v.outputs.empty(); });
      bool half = layers.contains(node.name) && gives_float;
      if (half && is_blocked(node)) {
        result_.notes.push_back(
            fmt::format("layer '{}' stays float: {} is in the block list", node.name, node.op_type));
        half = false;
      }
      selected_.push_back(half);
      variables_.push_back(std::move(variables));
    }
  }

  void join_exact_layers() {
    std::unordered_set<std::string> halves;
    std::vector<bool> could(selected_.size());
    const auto& nodes = graph_.nodes;
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (!selected_[i] && is_exact(nodes[i]) && !is_blocked(nodes[i]) && !variables_[i].empty()) {
        could[i] = true;
        for (const TypeVariable& v : variables_[i])
          for (size_t k : v.inputs) could[i] = could[i] && halves.contains(nodes[i].inputs[k]);
      }
      if (selected_[i] || could[i])
        for (const TypeVariable& v : variables_[i])
          for (size_t o : v.outputs) halves.insert(nodes[i].outputs[o]);
    }
    std::unordered_set<std::string> wanted;
    for (size_t i = nodes.size(); i-- > 0;) {
      if (could[i])
        for (const auto& output : nodes[i].outputs) selected_[i] = selected_[i] || wanted.contains(output);
      if (selected_[i])
        for (const TypeVariable& v : variables_[i])
          for (size_t k : v.inputs) wanted.insert(nodes[i].inputs[k]);
    }
  }

  // --- which tensors are needed as float

  void find_float_reads() {
    const auto& nodes = graph_.nodes;
    auto& reads = result_.halves->read_as_float;
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (takes_either_type(nodes[i])) continue;
      const auto half = result_.halves->inputs(i);
      for (size_t k = 0; k < nodes[i].inputs.size(); ++k)
        if (!half.contains(k)) reads.insert(nodes[i].inputs[k]);
    }
    reads.insert(view_.captured.begin(), view_.captured.end());
    if (options_.keep_io_types) reads.insert(view_.outputs.begin(), view_.outputs.end());
  }

  // A tensor that a body captures keeps its name and type.
  void find_inputs_outputs() {
    if (options_.keep_io_types) return;
    for (const auto* names : {&view_.inputs, &view_.outputs})
      for (const std::string& name : *names)
        if (is_float(name) && !view_.captured.contains(name) && !view_.is_initializer(name))
          result_.halves->inputs_outputs.insert(name);
  }

  void encode_constants() {
    std::unordered_map<std::string, size_t> places;
    std::unordered_set<std::string> halves;  // that nodes give
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      for (size_t k : result_.halves->inputs(i)) {
        const std::string& name = node.inputs[k];
        const Tensor* value = halves.contains(name) ? nullptr : view_.constant(name);
        if (!value) continue;
        auto [it, is_new] = places.try_emplace(name, result_.weights.size());
        if (is_new)
          result_.weights.push_back(
              {.name = name, .form = StoredForm::kFloat16, .stored = {.codes = half(name, *value)}});
        result_.weights[it->second].readers.push_back({node.name, i, k});
      }
      for (const TypeVariable& v : result_.halves->variables[i])
        for (size_t o : v.outputs) halves.insert(node.outputs[o]);
    }
  }

  const Tensor& half(const std::string& name, const Tensor& value) {
    const HalfTensor& halves = cache_.halves(name, value, options_);
    if (!halves.note.empty()) result_.notes.push_back(halves.note);
    return halves.values;
  }

  const Graph& graph_;
  const GraphView view_;
  const Float16Options& options_;
  WeightCache& cache_;
  std::vector<bool> selected_;  // computes in float16
  std::vector<std::vector<TypeVariable>> variables_;
  std::unordered_set<std::string> floats_;
  Encoding result_;
};

}  // namespace

Encoding encode_halves(const Model& model, const LayerSet& layers, const Float16Options& options, WeightCache& cache) {
  return Encoder(model, options, cache).run(layers);
}

}  // namespace seqto::internal
