#include "quantization/improve/qoperator_biases.h"

#include <unordered_map>

#include "model/graph_view.h"
#include "quantization/arithmetic/arithmetic.h"
#include "quantization/plan/qoperator_forms.h"

namespace seqto::internal {
namespace {

class Shifter {
 public:
  explicit Shifter(Graph& graph) : graph_(graph), edges_(graph) {
    for (size_t i = 0; i < graph.initializers.size(); ++i) places_[graph.initializers[i].name] = i;
  }

  void shift(Node& node, const QoperatorForm& form, const std::vector<float>& by) {
    const Tensor *input = constant(node.inputs[form.kInputScale]), *weight = constant(node.inputs[form.kWeightScale]);
    if (!input || !weight || input->type() != DataType::kFloat || input->element_count() != 1) return;
    // With shifts for a bias of zeros these are the codes of a layer that had none.
    QuantizedBias added = quantize_bias(by, to_floats(*input)[0], to_floats(*weight));
    if (added.scale.size() != 1 && added.scale.size() != by.size()) return;
    if (node.inputs.size() <= form.bias || node.inputs[form.bias].empty()) return add(node, form, std::move(added));
    const Tensor* bias = constant(node.inputs[form.bias]);
    if (!bias || bias->type() != DataType::kInt32 || bias->element_count() != static_cast<int64_t>(by.size())) return;
    auto old = bias->values<int32_t>();
    std::vector<int32_t> values(by.size());
    for (size_t c = 0; c < by.size(); ++c)
      values[c] = to_int32(old[c] + static_cast<double>(by[c]) / added.scale[added.scale.size() == 1 ? 0 : c]);
    set(node, form, Tensor::from(DataType::kInt32, bias->dims(), std::move(values)));
  }

 private:
  const Tensor* constant(const std::string& name) const {
    auto it = places_.find(name);
    return it == places_.end() ? nullptr : &graph_.initializers[it->second].tensor;
  }

  void add(Node& node, const QoperatorForm& form, QuantizedBias bias) {
    node.inputs.resize(std::max(node.inputs.size(), form.bias + 1));
    const auto channels = static_cast<int64_t>(bias.values.size());
    give(node, form, Tensor::from(DataType::kInt32, {channels}, std::move(bias.values)));
  }

  // In place where nothing else reads it.
  void set(Node& node, const QoperatorForm& form, Tensor codes) {
    if (edges_.uses(node.inputs[form.bias]) > 1) return give(node, form, std::move(codes));
    graph_.initializers[places_.at(node.inputs[form.bias])].tensor = std::move(codes);
  }

  void give(Node& node, const QoperatorForm& form, Tensor codes) {
    node.inputs[form.bias] = original_name(node.name) + "_corrected_bias_quantized";
    graph_.initializers.push_back({node.inputs[form.bias], std::move(codes)});
  }

  Graph& graph_;
  Edges edges_;  // as they were
  std::unordered_map<std::string, size_t> places_;
};

}  // namespace

void shift_operator_biases(Model& quantized, const BiasShifts& shifts) {
  Shifter shifter(quantized.graph);
  for (Node& node : quantized.graph.nodes) {
    const auto form = qoperator_form(node);
    if (!form || form->bias == 0 || node.float_attribute("alpha", 1) != 1) continue;
    auto it = shifts.find(original_name(node.name));
    if (it != shifts.end()) shifter.shift(node, *form, it->second);
  }
}

}  // namespace seqto::internal
