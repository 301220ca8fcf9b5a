#include "quantization/qdq_writer.h"

namespace seqto::internal {

RangeView::RangeView(const Model& model, const GraphIndex& index, const Ranges& ranges,
                     const std::vector<bool>& selected)
    : ranges_(ranges) {
  for (size_t i = 0; i < model.graph.nodes.size(); ++i) {
    const Node& node = model.graph.nodes[i];
    if (!selected[i] || node.inputs.empty() || node.outputs.empty()) continue;
    if (node.op_type == "Softmax") {
      adjusted_[node.outputs[0]] = {0.0f, 1.0f};
    } else if (node.op_type == "Clip" || node.op_type == "Relu") {
      // What the activation cuts off needs no codes: its only input takes over the range of its output.
      auto readers = index.readers.find(node.inputs[0]);
      if (readers == index.readers.end() || readers->second != 1) continue;
      const Range* output = find(node.outputs[0]);
      if (output && find(node.inputs[0])) adjusted_[node.inputs[0]] = Range(*output);
    }
  }
}

const Range* RangeView::find(const std::string& tensor) const {
  if (auto it = adjusted_.find(tensor); it != adjusted_.end()) return &it->second;
  auto it = ranges_.find(tensor);
  return it == ranges_.end() ? nullptr : &it->second;
}

QuantParams activation_params(const Range& range, const QuantizeOptions& options) {
  ScaleZeroPoint p;
  if (options.restricted_asymmetric_activations && options.activation_type == DataType::kUint8 &&
      !options.symmetric_activations) {
    p = snapped_scale_zero_point(range.lowest, range.highest, options.min_real_range);
  } else {
    p = scale_zero_point(range.lowest, range.highest,
                         quant_limits(options.activation_type, false, options.symmetric_activations),
                         options.symmetric_activations, options.min_real_range);
  }
  return {options.activation_type, {p.scale}, {p.zero_point}, {}};
}

}  // namespace seqto::internal
