#include "quantization/lower/operator_rules.h"

namespace seqto::internal {

std::optional<int64_t> column_axis(OperatorWriter& w, const std::string& weight) {
  const Tensor* value = w.options().per_channel ? w.initializer(weight) : nullptr;
  if (!value) return {};
  if (value->dims().size() != 2) return w.deviate("D14"), std::nullopt;
  return 1;
}

bool is_excluded_product(const OperatorWriter& w, const std::string& b) {
  return w.options().matmul_const_b_only.value_or(!w.is_static()) && !w.initializer(b);
}

bool is_selected(const OperatorWriter& w, const Node& n, const LayerSet& layers) {
  bool contrib = n.op_type == "Attention" || n.op_type == "EmbedLayerNormalization";
  if (n.domain != (contrib ? "com.microsoft" : "")) {
    if (layers.contains(n.name)) w.deviate("D49");
    return false;
  }
  return layers.contains(n.name) && lists_op_type(w.options(), w.is_static() ? Scheme::kInt8 : Scheme::kInt8Dynamic, n);
}

bool write_gather(OperatorWriter& w, const Node& n) {
  const Tensor* table = w.initializer(n.inputs[0]);
  if (!table || table->type() != DataType::kFloat) return false;
  const QuantizedTensor* known = w.find(n.inputs[0]);
  bool usable = known && !known->params.axis && known->params.type != DataType::kInt32;
  QuantizedTensor y = usable ? *known : w.activation(n.inputs[0]);
  Node gather = n;
  gather.inputs[0] = y.codes;
  gather.outputs[0] = y.codes = w.fresh(n.outputs[0] + "_quantized");
  w.define(n.outputs[0], std::move(y));
  w.emit(std::move(gather));
  return true;
}

bool write_moved(OperatorWriter& w, const Node& n) {
  if (!w.is_float(n.inputs[0])) return false;
  const QuantizedTensor* x = w.find(n.inputs[0]);
  bool force = w.options().force_quantize_no_input_check;
  if (force ? !w.initializer(n.inputs[0]) : !x) return false;
  if (x && (x->params.axis || x->params.type == DataType::kInt32)) return w.deviate("D18"), false;
  QuantizedTensor y = x ? *x : w.activation(n.inputs[0]);  // of whatever type: values only move
  Node moved = n;
  moved.inputs[0] = y.codes;
  for (size_t i = 1; i < n.inputs.size(); ++i) w.read_float(n.inputs[i]);
  moved.outputs[0] = y.codes = w.fresh(n.outputs[0] + "_quantized");
  w.define(n.outputs[0], std::move(y));
  w.emit(std::move(moved));
  return true;
}

bool write_embed_layer_norm(OperatorWriter& w, const Node& n) {
  constexpr size_t kFirst = 2, kLast = 6, kMask = 7, kPositions = 8;
  if (n.outputs.size() > 2 || n.inputs.size() <= kLast) return false;
  // The quantized operator has no input for positions; onnxruntime drops it.
  if (n.inputs.size() > kPositions && !n.inputs[kPositions].empty()) return w.deviate("D44"), false;
  for (size_t i = kFirst; i <= kLast; ++i)
    if (!n.inputs[i].empty() && !w.quantizable(n.inputs[i])) return w.deviate("D12"), false;
  std::vector<std::string> inputs{n.inputs[0], n.inputs[1]}, scales, zero_points;
  for (size_t i = kFirst; i <= kLast; ++i) {
    QuantizedTensor absent;
    const QuantizedTensor& q = n.inputs[i].empty() ? absent : w.activation(n.inputs[i]);
    inputs.push_back(q.codes), scales.push_back(q.scale), zero_points.push_back(q.zero_point);
  }
  inputs.push_back(n.inputs.size() > kMask ? n.inputs[kMask] : "");
  inputs.insert(inputs.end(), scales.begin(), scales.end());
  inputs.insert(inputs.end(), zero_points.begin(), zero_points.end());
  w.emit(quantized_node(n, "QEmbedLayerNormalization", std::move(inputs), n.outputs));
  return true;
}

}  // namespace seqto::internal
