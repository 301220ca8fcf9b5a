#include "model/shape_registry.h"

#include <fmt/format.h>
#include <onnx/shape_inference/implementation.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "model/contrib_shapes.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

using Infer = void (*)(InferenceContext&);

// Operators of com.microsoft; their versions never changed what they write.
constexpr std::pair<std::string_view, Infer> kMicrosoft[] = {
    {"Attention", attention},
    {"BiasAdd", like_first},
    {"BiasGelu", like_first},
    {"BiasSoftmax", like_first},
    {"BiasSplitGelu", halved},
    {"BranchwiseRMSNorm", like_first},
    {"CausalConvWithState", causal_conv_with_state},
    {"DecoderMaskedMultiHeadAttention", decoder_masked_multi_head_attention},
    {"DecoderMaskedSelfAttention", attention},
    {"DequantizeLinear", dequantize},
    {"DynamicQuantizeLSTM", recurrent},
    {"DynamicQuantizeMatMul", matmul},
    {"EmbedLayerNormalization", embed_layer_norm},
    {"FastGelu", like_first},
    {"FusedConv", conv},
    {"FusedGemm", fused_gemm},
    {"FusedMatMul", fused_matmul},
    {"FusedMatMulActivation", fused_matmul},
    {"GatherBlockQuantized", gather_block_quantized},
    {"GatedAdd", like_first},
    {"GatedRMSNorm", like_first},
    {"Gelu", like_first},
    {"GemmFastGelu", matmul},
    {"GroupNorm", like_first},
    {"GroupQueryAttention", group_query_attention},
    {"LinearAttention", linear_attention},
    {"LinearAttentionGate", linear_attention_gate},
    {"LongformerAttention", like_first},
    {"MRotaryEmbedding", like_first},
    {"MatMulBnb4", matmul_bits},
    {"MatMulIntegerToFloat", matmul_integer_to_float},
    {"MatMulNBits", matmul_bits},
    {"MoE", like_first},
    {"MultiHeadAttention", multi_head_attention},
    {"NhwcConv", nhwc_conv},
    {"NhwcFusedConv", nhwc_conv},
    {"NhwcMaxPool", nhwc_max_pool},
    {"PackedAttention", attention},
    {"QAttention", quantized_attention},
    {"QEmbedLayerNormalization", quantized_embed_layer_norm},
    {"QGemm", quantized_gemm},
    {"QLinearAdd", qlinear_binary},
    {"QLinearAveragePool", qlinear_average_pool},
    {"QLinearConcat", qlinear_concat},
    {"QLinearConv", qlinear_conv},
    {"QLinearGlobalAveragePool", qlinear_global_average_pool},
    {"QLinearLeakyRelu", like_first},
    {"QLinearMul", qlinear_binary},
    {"QLinearSigmoid", like_first},
    {"QLinearSoftmax", like_first},
    {"QLinearWhere", qlinear_where},
    {"QMoE", like_first},
    {"QuantizeLinear", quantize},
    {"QuickGelu", like_first},
    {"RotaryEmbedding", like_first},
    {"ScaledSiLU", like_first},
    {"SimplifiedLayerNormalization", layer_norm},
    {"SkipGroupNorm", like_first},
    {"SkipLayerNormalization", skip_layer_norm},
    {"SkipSimplifiedLayerNormalization", skip_layer_norm},
    {"SparseAttention", group_query_attention},
    {"TransposeMatMul", fused_matmul},
    {"Trilu", like_first},
};

// Operators that onnxruntime writes in ONNX's own domain.
constexpr std::pair<std::string_view, Infer> kOnnx[] = {
    {"LayerNormalization", layer_norm},
    {"SimplifiedLayerNormalization", layer_norm},
};

// Rank one of a known length: its numbers are carried along as if they were a shape, each by itself.
bool longer_than_a_shape(const onnx::TypeProto* type) {
  constexpr int64_t kLongestShape = 64;
  if (!type || !type->has_tensor_type()) return false;
  const onnx::TensorShapeProto& shape = type->tensor_type().shape();
  return shape.dim_size() == 1 && shape.dim(0).dim_value() > kLongestShape;
}

// The operator, as long as what it reads can be a shape.
onnx::OpSchema for_shapes_alone(onnx::OpSchema schema) {
  schema.PartialDataPropagationFunction(
      [propagate = schema.GetDataPropagationFunction()](onnx::DataPropagationContext& context) {
        for (size_t i = 0; i < context.getNumInputs(); ++i)
          if (longer_than_a_shape(context.getInputType(i))) return;
        propagate(context);
      });
  return schema;
}

class ShapeRegistry final : public onnx::ISchemaRegistry {
 public:
  ShapeRegistry() {
    for (const auto& [op_type, infer] : kMicrosoft) add(op_type, "com.microsoft", infer);
    for (const auto& [op_type, infer] : kOnnx) add(op_type, onnx::ONNX_DOMAIN, infer);
  }

  const onnx::OpSchema* GetSchema(const std::string& op_type, int version, const std::string& domain) const override {
    if (const auto* known = onnx::OpSchemaRegistry::Schema(op_type, version, domain)) {
      if (!known->has_data_propagation_function()) return known;
      const std::lock_guard lock(mutex_);
      const auto found = propagating_.find(known);
      if (found != propagating_.end()) return &found->second;
      return &propagating_.emplace(known, for_shapes_alone(*known)).first->second;
    }
    auto it = own_.find({domain, op_type});
    return it == own_.end() ? nullptr : &it->second;
  }

 private:
  void add(std::string_view op_type, const char* domain, Infer infer) {
    onnx::OpSchema schema(std::string(op_type), "", 0);
    schema.SetDomain(domain).SinceVersion(1).TypeAndShapeInferenceFunction(infer);
    own_.emplace(std::pair(std::string(domain), std::string(op_type)), std::move(schema));
  }

  std::map<std::pair<std::string, std::string>, onnx::OpSchema> own_;
  mutable std::mutex mutex_;
  mutable std::map<const onnx::OpSchema*, onnx::OpSchema> propagating_;  // made when asked for; guarded by mutex_
};

}  // namespace

const onnx::ISchemaRegistry* shape_registry() {
  static const ShapeRegistry registry;
  return &registry;
}

namespace {

// The runtime takes operators of a domain that the model does not import.
void import_missing(onnx::ModelProto& proto) {
  std::set<std::string> imported{onnx::ONNX_DOMAIN, "ai.onnx"};
  for (const auto& opset : proto.opset_import()) imported.insert(opset.domain());
  for (const auto& node : proto.graph().node()) {
    if (!imported.insert(node.domain()).second) continue;
    auto* opset = proto.add_opset_import();
    opset->set_domain(node.domain());
    opset->set_version(1);
  }
}

void infer(onnx::ModelProto& proto, bool data_propagation) {
  const onnx::ShapeInferenceOptions options(/*check_type=*/false, /*strict_mode=*/0, data_propagation);
  onnx::shape_inference::InferShapes(proto, shape_registry(), options);
}

using Attempt = void (*)(onnx::ModelProto&);
constexpr Attempt kAttempts[] = {[](onnx::ModelProto& proto) { infer(proto, true); },
                                 [](onnx::ModelProto& proto) { infer(proto, false); },
                                 // What the file says of inner tensors may contradict its weights; runtimes go by the
                                 // weights.
                                 [](onnx::ModelProto& proto) {
                                   proto.mutable_graph()->clear_value_info();
                                   infer(proto, false);
                                 }};

}  // namespace

void infer_types(onnx::ModelProto& proto) {
  import_missing(proto);
  const onnx::ModelProto untouched = proto;
  std::string said;
  for (Attempt attempt : kAttempts) {
    try {
      return attempt(proto);
    } catch (const std::exception& error) {
      if (said.empty()) said = error.what();
      proto = untouched;
    }
  }
  throw Error(Code::kInvalidInput, fmt::format("[load] types and shapes found that contradict each other: {}; a valid "
                                               "model was expected; export it again",
                                               said));
}

bool only_in_runtime(const std::string& op_type, int64_t opset) {
  return std::ranges::any_of(kOnnx, [&](const auto& row) { return row.first == op_type; }) &&
         !onnx::OpSchemaRegistry::Schema(op_type, static_cast<int>(opset), onnx::ONNX_DOMAIN);
}

}  // namespace seqto::internal
