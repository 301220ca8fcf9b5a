#include "quantization/encode/operator_rules.h"

#include <fmt/format.h>

#include "quantization/encode/type_deviations.h"
#include "seqto/error.h"

namespace seqto::internal {

std::optional<int64_t> column_axis(OperatorEncoder& e, const std::string& weight) {
  const Tensor* value = e.options().per_channel ? e.initializer(weight) : nullptr;
  if (!value) return {};
  if (value->dims().size() != 2) return e.deviate("D14"), std::nullopt;
  return 1;
}

bool is_excluded_product(OperatorEncoder& e, const std::string& b) {
  return e.options().matmul_const_b_only.value_or(!e.is_static()) && !e.initializer(b);
}

bool is_selected(OperatorEncoder& e, const Node& n, const LayerSet& layers) {
  static const std::unordered_set<std::string_view> kContrib{"Attention", "EmbedLayerNormalization"};
  if (n.domain != (kContrib.contains(n.op_type) ? "com.microsoft" : "")) {
    if (layers.contains(n.name)) e.deviate("D49");
    return false;
  }
  return layers.contains(n.name) && lists_op_type(e.options(), e.is_static() ? Scheme::kInt8 : Scheme::kInt8Dynamic, n);
}

bool encode_gather(OperatorEncoder& e, const Node& n) {
  const Tensor* table = e.initializer(n.inputs[0]);
  if (!table || table->type() != DataType::kFloat) return false;
  const QuantizedTensor* known = e.find(n.inputs[0]);
  bool usable = known && !known->params.axis && known->params.type != DataType::kInt32;
  QuantizedTensor y = usable ? *known : e.activation(n.inputs[0]);
  Node gather = n;
  gather.inputs[0] = y.codes;
  gather.outputs[0] = y.codes = e.fresh(n.outputs[0] + "_quantized");
  e.define(n.outputs[0], std::move(y));
  e.emit(std::move(gather));
  return true;
}

bool encode_moved(OperatorEncoder& e, const Node& n) {
  if (!e.is_float(n.inputs[0])) return false;
  const QuantizedTensor* x = e.find(n.inputs[0]);
  bool force = e.options().force_quantize_no_input_check;
  if (force ? !e.initializer(n.inputs[0]) : !x) return false;
  if (x && (x->params.axis || x->params.type == DataType::kInt32)) return e.deviate("D18"), false;
  QuantizedTensor y = x ? *x : e.activation(n.inputs[0]);  // of whatever type: values only move
  Node moved = n;
  moved.inputs[0] = y.codes;
  for (size_t i = 1; i < n.inputs.size(); ++i) e.read_float(n.inputs[i]);
  moved.outputs[0] = y.codes = e.fresh(n.outputs[0] + "_quantized");
  e.define(n.outputs[0], std::move(y));
  e.emit(std::move(moved));
  return true;
}

bool encode_embed_layer_norm(OperatorEncoder& e, const Node& n) {
  constexpr size_t kFirst = 2, kLast = 6, kMask = 7, kPositions = 8;
  if (n.outputs.size() > 2 || n.inputs.size() <= kLast) return false;
  // The quantized operator has no input for positions; onnxruntime drops it.
  if (n.inputs.size() > kPositions && !n.inputs[kPositions].empty()) return e.deviate("D44"), false;
  for (size_t i = kFirst; i <= kLast; ++i)
    if (!n.inputs[i].empty() && !e.quantizable(n.inputs[i])) return e.deviate("D12"), false;
  std::vector<std::string> inputs{n.inputs[0], n.inputs[1]}, scales, zero_points;
  for (size_t i = kFirst; i <= kLast; ++i) {
    QuantizedTensor absent;
    const QuantizedTensor& q = n.inputs[i].empty() ? absent : e.activation(n.inputs[i]);
    inputs.push_back(q.codes), scales.push_back(q.scale), zero_points.push_back(q.zero_point);
  }
  inputs.push_back(n.inputs.size() > kMask ? n.inputs[kMask] : "");
  inputs.insert(inputs.end(), scales.begin(), scales.end());
  inputs.insert(inputs.end(), zero_points.begin(), zero_points.end());
  e.emit(quantized_node(n, "QEmbedLayerNormalization", std::move(inputs), n.outputs));
  return true;
}

namespace {

void validate_dynamic(int64_t opset, const QuantizeOptions& options) {
  if (opset < 11)
    throw Error(Code::kInvalidInput,
                fmt::format("[quantize] opset {} found; activations are quantized at run time from opset 11 on; run "
                            "`seqto prepare` first or export with a newer opset",
                            opset));
  if (DataType type = options.weight_type; !is_8_bits(type))
    throw Error(Code::kUsage,
                fmt::format("[quantize] {} weights found; integer operators take int8 or uint8", to_string(type)));
}

}  // namespace

Encoding encode_operators(const Model& model, const GraphView& view, const LayerSet& layers,
                          const OperatorContext& context) {
  if (!context.is_static()) validate_dynamic(view.opset, context.options.common());
  const auto encode_node = context.is_static() ? encode_qoperator_node : encode_dynamic_node;
  Encoding encoding = OperatorEncoder(model, view, context).run([&](OperatorEncoder& e, const Node& n) {
    return encode_node(e, n, layers);
  });
  const auto selected = [&](size_t i) { return layers.contains(model.graph.nodes[i].name); };
  if (!context.ranges) return encoding;
  if (has_unranged_softmax(model, *context.ranges, selected)) encoding.deviate("D34");
  for (const LayerId& layer : context.ranges->kept()) encoding.deviate("D61", layer);
  return encoding;
}

}  // namespace seqto::internal
