#include "quantization/read/compare_tensors.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "model/op_traits.h"
#include "model/sort_nodes.h"
#include "quantization/plan/layer_names.h"
#include "quantization/read/dequantizer.h"
#include "quantization/read/layer_form.h"

namespace seqto::internal {
namespace {

class Comparer {
 public:
  Comparer(const Model& float_model, const Model& quantized)
      : float_model_(float_model), quantized_(quantized), floats_(float_model), forms_(quantized, &floats_.types) {
    for (const Node& n : float_model.graph.nodes) float_nodes_.emplace(n.name, &n);
    for (const Node& n : quantized.graph.nodes) quantized_names_.insert(original_name(n.name));
  }

  Comparison run() {
    result_.quantized = quantized_;
    Model sorted = quantized_;
    sort_nodes(sorted.graph);
    Dequantizer dequantizer(sorted);
    Model twin = dequantizer.run().model;
    find_pairs(dequantizer);
    find_in_place(dequantizer);
    find_weights(twin);
    sort_nodes(result_.quantized.graph);
    return std::move(result_);
  }

 private:
  // The float model's tensor that `name`, written by `node`, stands for; "" for none.
  std::string match(const std::string& name, const Node* node) const {
    if (floats_.is_float(name) && !floats_.is_initializer(name)) return name;
    if (!node) return "";
    auto it = float_nodes_.find(original_name(node->name));
    if (it == float_nodes_.end()) return "";
    for (size_t i = 0; i < node->outputs.size() && i < it->second->outputs.size(); ++i)
      if (node->outputs[i] == name && floats_.is_float(it->second->outputs[i])) return it->second->outputs[i];
    return "";
  }

  // A Relu or Clip that the quantized range stands for: what is kept is its output.
  std::string behind_removed(std::string tensor) const {
    for (;;) {
      const Node* reader = floats_.edges.only_reader(tensor);
      if (!reader || !has(*reader, kClips) || quantized_names_.contains(reader->name)) return tensor;
      tensor = reader->outputs[0];
    }
  }

  void add(const std::string& tensor, const std::string& before, const std::string& after) {
    if (!tensor.empty() && seen_.insert(behind_removed(tensor)).second)
      result_.activations.push_back({behind_removed(tensor), before, after});
  }

  // QuantizeLinear followed by DequantizeLinear.
  void find_pairs(const Dequantizer& dequantizer) {
    for (const Node& n : quantized_.graph.nodes) {
      const Node* q = is_dequantize(n) ? forms_.producer(n.inputs[0]) : nullptr;
      if (!q || !is_quantize(*q) || forms_.index().is_initializer(q->inputs[0])) continue;
      const std::string& before = q->inputs[0];
      std::string tensor = match(without_suffix(before, "_QuantizeLinear_Input"), nullptr);
      // A model of another tool: through the name in the twin, then through the layer's.
      if (tensor.empty()) tensor = match(dequantizer.resolved(before), forms_.producer(before));
      add(tensor, before, n.outputs[0]);
    }
  }

  // Layers that write integers, and quantized ones that write floats.
  void find_in_place(const Dequantizer& dequantizer) {
    for (const Node& n : quantized_.graph.nodes) {
      if (n.outputs.empty() || is_dequantize(n)) continue;
      const std::string& output = n.outputs[0];
      auto coding = dequantizer.codings().find(output);
      auto twin = dequantizer.float_names().find(output);
      if (coding != dequantizer.codings().end() && twin != dequantizer.float_names().end()) {
        std::string before = is_quantize(n) ? n.inputs[0] : "";
        if (is_dynamic_quantize(n)) continue;  // the same tensor in float is compared
        std::string tensor = match(twin->second, &n);
        if (!tensor.empty() && !seen_.contains(behind_removed(tensor)))
          add(tensor, before, dequantized(coding->second));
      } else if (!forms_.is_plumbing(n) || floats_.is_float(output)) {
        Scheme scheme = forms_.is_plumbing(n) ? scheme_behind(n) : forms_.of(n).scheme;
        // The sum of a product of integers is scaled behind it.
        if (scheme == Scheme::kFloat32 || is_static(scheme) || has(n, kIntegerProduct)) continue;
        add(match(output, &n), "", output);
      }
    }
  }

  // What carries a tensor that the float model knows (the Mul behind an integer product) belongs to its layer.
  Scheme scheme_behind(const Node& plumbing) const {
    const Node* n = &plumbing;
    for (int i = 0; n && i < 8 && forms_.is_plumbing(*n) && !n->inputs.empty(); ++i) n = forms_.producer(n->inputs[0]);
    return n && !forms_.is_plumbing(*n) ? forms_.of(*n).scheme : Scheme::kFloat32;
  }

  std::string dequantized(const Coded& coded) {
    Node node{coded.codes + "_seqto_DequantizeLinear",
              "DequantizeLinear",
              "",
              {coded.codes, coded.scale},
              {coded.codes + "_seqto_dequantized"},
              {},
              {}};
    if (!coded.zero_point.empty()) node.inputs.push_back(coded.zero_point);
    result_.quantized.graph.nodes.push_back(node);
    return node.outputs[0];
  }

  // A weight's value is the twin's: same node, same input.
  void find_weights(const Model& twin) {
    GraphView now(twin), stored(quantized_);
    std::unordered_map<std::string, const Node*> nodes;
    for (const Node& n : twin.graph.nodes) nodes.emplace(n.name, &n);
    std::unordered_set<std::string> seen;
    for (const Node& n : float_model_.graph.nodes) {
      auto counterpart = nodes.find(n.name);
      if (counterpart == nodes.end()) continue;
      const Node& other = *counterpart->second;
      for (size_t i = 0; i < n.inputs.size() && i < other.inputs.size(); ++i) {
        auto was = floats_.initializers.find(n.inputs[i]);
        auto is = now.initializers.find(other.inputs[i]);
        if (was == floats_.initializers.end() || is == now.initializers.end() || !was->second->is_float()) continue;
        bool half = is->second->type() == DataType::kFloat16 && was->second->type() == DataType::kFloat;
        bool as_it_was = stored.is_initializer(other.inputs[i]) && !half;
        if (as_it_was || was->second->element_count() != is->second->element_count()) continue;
        if (seen.insert(n.inputs[i]).second)
          result_.weights.push_back({n.inputs[i], *is->second, channel_axis(n, i, was->second->dims().size())});
      }
    }
  }

  static int64_t channel_axis(const Node& n, size_t input, size_t rank) {
    return input == 1 ? static_cast<int64_t>(output_axis(n, rank).value_or(0)) : 0;
  }

  const Model &float_model_, &quantized_;
  GraphView floats_;
  LayerForms forms_;
  std::unordered_map<std::string, const Node*> float_nodes_;
  std::unordered_set<std::string> quantized_names_;
  std::unordered_set<std::string> seen_;
  Comparison result_;
};

// The operator, or its form on codes: Conv, QLinearConv, ConvInteger.
bool does(const Node& quantized, const Node& layer) {
  return quantized.op_type.find(layer.op_type) != std::string::npos;
}

// Nodes without a name get that of the layer whose output they write: other tools quantize models as they are, whose
// nodes got names here.
Model with_names(const Model& float_model, const Model& quantized) {
  Model named = quantized;
  const LayerForms forms(quantized);
  const Node* first = quantized.graph.nodes.data();
  for (const Node& layer : float_model.graph.nodes) {
    const Node* now = forms.counterpart(layer);
    if (now && now->name.empty() && does(*now, layer))
      named.graph.nodes[static_cast<size_t>(now - first)].name = layer.name;
  }
  return named;
}

}  // namespace

Comparison compare_tensors(const Model& float_model, const Model& quantized) {
  if (std::ranges::none_of(quantized.graph.nodes, [](const Node& n) { return n.name.empty(); }))
    return Comparer(float_model, quantized).run();
  return Comparer(float_model, with_names(float_model, quantized)).run();
}

}  // namespace seqto::internal
