#include "quantization/improve/operators_in_pairs.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/graph_view.h"
#include "model/op_traits.h"
#include "quantization/arithmetic/arithmetic.h"
#include "quantization/plan/qoperator_forms.h"

namespace seqto::internal {
namespace {

class InPairs {
 public:
  explicit InPairs(const Model& model) : view_(model) {}

  // The nodes that take this one's place; none where it stays.
  std::vector<Node> nodes_of(const Node& found) {
    const auto form = qoperator_form(found);
    const Tensor* input_scale = form ? view_.constant(found.inputs[QoperatorForm::kInputScale]) : nullptr;
    const Tensor* weight_scale = form ? view_.constant(found.inputs[QoperatorForm::kWeightScale]) : nullptr;
    const Tensor* weight = form ? view_.constant(found.inputs[QoperatorForm::kWeight]) : nullptr;
    if (!input_scale || !weight_scale || !weight || found.float_attribute("alpha", 1) != 1) return {};
    const bool by_channel = weight_scale->element_count() > 1;
    if (input_scale->element_count() > 1 || (by_channel && view_.opset < 13)) return {};
    Node layer{original_name(found.name), std::string(form->layer_type), "", {}, found.outputs, found.attributes, {}};
    const std::string prefix = found.outputs[0] + "_seqto_";
    const auto axis = by_channel ? output_axis(layer, weight->dims().size()) : std::nullopt;
    std::vector<Node> result{dequantize(found, QoperatorForm::kInput, prefix + "input", {}),
                             dequantize(found, QoperatorForm::kWeight, prefix + "weight", axis)};
    if (form->bias != 0 && form->bias < found.inputs.size() && !found.inputs[form->bias].empty()) {
      const float input_step = to_floats(*input_scale)[0];
      std::vector<float> steps = to_floats(*weight_scale);
      for (float& step : steps) step *= input_step;
      const std::string scale = prefix + "bias_scale", bias = prefix + "bias";
      new_initializers.push_back({scale, float_tensor(weight_scale->dims(), steps)});
      result.push_back({bias, "DequantizeLinear", "", {found.inputs[form->bias], scale}, {bias}, {}, {}});
      if (by_channel) result.back().set_attribute({"axis", int64_t{0}});
    }
    for (const Node& made : result) layer.inputs.push_back(made.outputs[0]);
    const size_t output_scale = form->output_scale;
    const bool gives_codes = output_scale < found.inputs.size() && !found.inputs[output_scale].empty();
    if (gives_codes) layer.outputs = {prefix + "output"};
    result.push_back(std::move(layer));
    if (gives_codes)
      result.push_back({prefix + "Q",
                        "QuantizeLinear",
                        "",
                        {prefix + "output", found.inputs[output_scale], found.inputs[output_scale + 1]},
                        found.outputs,
                        {},
                        {}});
    return result;
  }

  std::vector<Initializer> new_initializers;

 private:
  // Of codes, behind which their scale and zero point stand.
  static Node dequantize(const Node& node, size_t codes, const std::string& name, std::optional<size_t> axis) {
    Node result{name, "DequantizeLinear", "", {}, {name}, {}, {}};
    for (size_t part = 0; part < 3; ++part) result.inputs.push_back(node.inputs[codes + part]);
    if (axis) result.set_attribute({"axis", static_cast<int64_t>(*axis)});
    return result;
  }

  GraphView view_;
};

}  // namespace

Model operators_in_pairs(Model quantized) {
  if (std::ranges::none_of(quantized.graph.nodes, [](const Node& n) { return qoperator_form(n).has_value(); }))
    return quantized;
  InPairs in_pairs(quantized);
  std::vector<Node> nodes;
  for (const Node& node : quantized.graph.nodes) {
    std::vector<Node> instead = in_pairs.nodes_of(node);
    if (instead.empty()) nodes.push_back(node);
    else std::ranges::move(instead, std::back_inserter(nodes));
  }
  quantized.graph.nodes = std::move(nodes);
  std::ranges::move(in_pairs.new_initializers, std::back_inserter(quantized.graph.initializers));
  return quantized;
}

}  // namespace seqto::internal
