#include "model/op_traits.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace seqto::internal {
namespace {

constexpr size_t kNone = static_cast<size_t>(-1);

struct Row {
  std::string_view op_type;
  Traits traits = 0;
  size_t data_inputs = 0;  // the first so many; 0: all
  size_t bias = kNone;
  size_t output_scale = kNone;
  int64_t integers_from_opset = 0;
};

constexpr Row kRows[] = {
    {"Abs", kNotNegative | kExactInHalf},
    {"Add", kUnfoldsWeights},
    {"ArgMax", kComputesOnCodes},
    {"Attention", kAttends | kComputesOnCodes, 2},
    {"AveragePool", kPools | kAverages | kKeepsScale | kScales | kPassThrough},
    {"BatchNormalization", kNormalization | kFollowsAxis, 2, 2},
    {"Bernoulli", kRandom},
    {"BitShift", kUnfoldsWeights},
    {"Cast", kUnfoldsWeights | kEndsUnfolding},
    {"Clip", kClips | kKeepsCodes | kPassThrough, 1},
    {"Concat", kKeepsCodes | kDataMovement | kMovesChannels | kExactInHalf | kUnfoldsWeights},
    {"Conv", kConv | kProduct | kComputesOnCodes, 2, 2},
    {"ConvInteger", kDynamic | kOnCodes | kIntegerProduct},
    {"ConvTranspose", kConv | kProduct | kFollowsAxis | kComputesOnCodes, 2, 2},
    {"DecoderMaskedMultiHeadAttention", kAttends},
    {"DepthToSpace", kKeepsCodes | kDataMovement | kExactInHalf},
    {"DequantizeLinear", kUnfoldsWeights | kPair | kConverts},
    {"Dropout", kScales | kShifts},
    {"DynamicQuantizeLSTM", kDynamic | kOnCodes},
    {"DynamicQuantizeLinear", kConverts},
    {"DynamicQuantizeMatMul", kDynamic | kOnCodes},
    {"Exp", kNotNegative},
    {"Expand", kKeepsCodes | kDataMovement | kExactInHalf | kUnfoldsWeights},
    {"Flatten", kKeepsCodes | kDataMovement | kKeepsScale | kMovesChannels | kExactInHalf | kPassThrough},
    {"GRU", kRecurrent, 3},
    {"Gather", kKeepsCodes | kDataMovement | kKeepsScale | kTakesApart | kMovesChannels | kExactInHalf | kPassThrough |
                   kFollowsAxis},
    {"GatherBlockQuantized", kOnCodes | kCodedWeights | kBlocks},
    {"GatherElements", kKeepsCodes | kKeepsScale | kExactInHalf | kPassThrough | kFollowsAxis},
    {"Gemm", kProduct | kMatrixProduct | kComputesOnCodes, 2, 2},
    {"GlobalAveragePool", kPools | kAverages | kScales | kShifts},
    {"GlobalMaxPool", kPools | kDataMovement | kScales | kShifts | kExactInHalf},
    {"GroupNormalization", kNormalization, 2, 2},
    {"GroupQueryAttention", kAttends},
    {"HardSigmoid", kNotNegative},
    {"Identity", kKeepsCodes | kDataMovement | kScales | kShifts | kExactInHalf | kUnfoldsWeights},
    {"InstanceNormalization", kNormalization | kFollowsAxis, 2, 2},
    {"LSTM", kRecurrent | kComputesOnCodes, 3},
    {"LayerNormalization", kNormalization | kFollowsAxis, 2, 2},
    {"LeakyRelu", kScales},
    {"LinearAttention", kAttends},
    {"MatMul", kProduct | kMatrixProduct | kComputesOnCodes},
    {"MatMulInteger", kDynamic | kOnCodes | kIntegerProduct},
    {"MatMulIntegerToFloat", kDynamic | kOnCodes},
    {"MatMulNBits", kOnCodes | kCodedWeights | kBlocks},
    {"Max", kExactInHalf},
    {.op_type = "MaxPool",
     .traits = kPools | kKeepsCodes | kDataMovement | kKeepsScale | kScales | kShifts | kExactInHalf | kPassThrough,
     .integers_from_opset = 12},
    {"Min", kExactInHalf},
    {"Mul", kUnfoldsWeights | kEndsUnfolding},
    {"MultiHeadAttention", kAttends},
    {"Multinomial", kRandom},
    {"Neg", kExactInHalf},
    {"NonMaxSuppression", kChooses},
    {"NonZero", kChooses},
    {"Pad", kKeepsCodes | kDataMovement | kKeepsScale | kMovesChannels, 1},
    {"PackedMultiHeadAttention", kAttends},
    {"PagedAttention", kAttends},
    {"QAttention", kDynamic | kOnCodes},
    {"QEmbedLayerNormalization", kOnCodes | kCodedWeights},
    {.op_type = "QGemm", .traits = kOnCodes | kCodedProduct, .output_scale = 7},
    {.op_type = "QLinearAdd", .output_scale = 6},
    {.op_type = "QLinearConcat", .output_scale = 0},
    {.op_type = "QLinearConv", .traits = kCodedProduct, .output_scale = 6},
    {.op_type = "QLinearMatMul", .traits = kCodedProduct, .output_scale = 6},
    {.op_type = "QLinearMul", .output_scale = 6},
    {.op_type = "QLinearWhere", .output_scale = 7},
    {.op_type = "QuantizeLinear", .traits = kUnfoldsWeights | kPair | kConverts, .output_scale = 1},
    {"RNN", kRecurrent, 3},
    {"RandomNormal", kRandom},
    {"RandomNormalLike", kRandom},
    {"RandomUniform", kRandom},
    {"RandomUniformLike", kRandom},
    {"ReduceMax", kDataMovement},
    {"ReduceMean", kAverages},
    {"Relu", kClips | kKeepsCodes | kScales | kNotNegative | kExactInHalf | kPassThrough},
    {"Reshape", kMovesValues | kKeepsCodes | kDataMovement | kKeepsScale | kMovesChannels | kExactInHalf |
                    kUnfoldsWeights | kPassThrough | kEndsUnfolding},
    {.op_type = "Resize",
     .traits = kKeepsCodes | kDataMovement | kKeepsScale | kPassThrough,
     .data_inputs = 1,
     .integers_from_opset = 11},
    {"Shape", kTakesApart},
    {"Sigmoid", kNotNegative},
    {"Slice", kMovesValues | kKeepsCodes | kDataMovement | kKeepsScale | kTakesApart | kMovesChannels | kExactInHalf |
                  kUnfoldsWeights | kPassThrough | kEndsUnfolding},
    {"Softmax", kNotNegative},
    {"Softplus", kNotNegative},
    {"SpaceToDepth", kKeepsCodes | kDataMovement | kMovesChannels | kExactInHalf},
    {"SparseAttention", kAttends},
    {"Split", kKeepsCodes | kDataMovement | kKeepsScale | kTakesApart | kMovesChannels | kExactInHalf},
    {"Sqrt", kNotNegative},
    {"Squeeze", kMovesValues | kKeepsCodes | kDataMovement | kKeepsScale | kMovesChannels | kExactInHalf |
                    kUnfoldsWeights | kPassThrough},
    {"Sub", kUnfoldsWeights | kEndsUnfolding},
    {"Tile", kKeepsCodes | kDataMovement | kExactInHalf},
    {"TopK", kKeepsCodes | kDataMovement | kKeepsScale | kPassThrough | kChooses},
    {"Transpose", kMovesValues | kKeepsCodes | kDataMovement | kKeepsScale | kMovesChannels | kExactInHalf |
                      kUnfoldsWeights | kPassThrough | kEndsUnfolding},
    {"Unsqueeze", kMovesValues | kKeepsCodes | kDataMovement | kKeepsScale | kMovesChannels | kExactInHalf |
                      kUnfoldsWeights | kPassThrough},
    {"Upsample", 0, 1},
    {"Where", kPassThrough},
};

const Row& row_of(std::string_view op_type) {
  static const std::unordered_map<std::string_view, const Row*> kByName = [] {
    std::unordered_map<std::string_view, const Row*> rows;
    for (const Row& row : kRows) rows[row.op_type] = &row;
    return rows;
  }();
  static constexpr Row kUnknown{};
  const auto it = kByName.find(op_type);
  return it == kByName.end() ? kUnknown : *it->second;
}

bool is_qlinear(std::string_view op_type) { return op_type.starts_with("QLinear"); }

bool is_given(const Node& node, size_t input) { return input < node.inputs.size() && !node.inputs[input].empty(); }

}  // namespace

bool has(std::string_view op_type, Traits traits) { return (row_of(op_type).traits & traits) != 0; }
bool has(const Node& node, Traits traits) { return has(node.op_type, traits); }

bool is_add(const Node& node) { return node.op_type == "Add"; }
bool is_average_pool(const Node& node) { return node.op_type == "AveragePool"; }
bool is_batch_normalization(const Node& node) { return node.op_type == "BatchNormalization"; }
bool is_bit_shift(const Node& node) { return node.op_type == "BitShift"; }
bool is_cast(const Node& node) { return node.op_type == "Cast"; }
bool is_clip(const Node& node) { return node.op_type == "Clip"; }
bool is_concat(const Node& node) { return node.op_type == "Concat"; }
bool is_constant(const Node& node) { return node.op_type == "Constant"; }
bool is_conv(const Node& node) { return node.op_type == "Conv"; }
bool is_conv_integer(const Node& node) { return node.op_type == "ConvInteger"; }
bool is_conv_transpose(const Node& node) { return node.op_type == "ConvTranspose"; }
bool is_dequantize(const Node& node) { return node.op_type == "DequantizeLinear"; }
bool is_dynamic_quantize(const Node& node) { return node.op_type == "DynamicQuantizeLinear"; }
bool is_flatten(const Node& node) { return node.op_type == "Flatten"; }
bool is_gather(const Node& node) { return node.op_type == "Gather"; }
bool is_gemm(const Node& node) { return node.op_type == "Gemm"; }
bool is_identity(const Node& node) { return node.op_type == "Identity"; }
bool is_if(const Node& node) { return node.op_type == "If"; }
bool is_leaky_relu(const Node& node) { return node.op_type == "LeakyRelu"; }
bool is_matmul(const Node& node) { return node.op_type == "MatMul"; }
bool is_max_pool(const Node& node) { return node.op_type == "MaxPool"; }
bool is_mul(const Node& node) { return node.op_type == "Mul"; }
bool is_nbits(const Node& node) { return node.op_type == "MatMulNBits"; }
bool is_pad(const Node& node) { return node.op_type == "Pad"; }
bool is_quantize(const Node& node) { return node.op_type == "QuantizeLinear"; }
bool is_relu(const Node& node) { return node.op_type == "Relu"; }
bool is_reshape(const Node& node) { return node.op_type == "Reshape"; }
bool is_resize(const Node& node) { return node.op_type == "Resize"; }
bool is_shape(const Node& node) { return node.op_type == "Shape"; }
bool is_sigmoid(const Node& node) { return node.op_type == "Sigmoid"; }
bool is_size(const Node& node) { return node.op_type == "Size"; }
bool is_slice(const Node& node) { return node.op_type == "Slice"; }
bool is_softmax(const Node& node) { return node.op_type == "Softmax"; }
bool is_split(const Node& node) { return node.op_type == "Split"; }
bool is_tanh(const Node& node) { return node.op_type == "Tanh"; }
bool is_transpose(const Node& node) { return node.op_type == "Transpose"; }
bool is_where(const Node& node) { return node.op_type == "Where"; }

bool moves_values(const Node& node) { return has(node, kMovesValues) && !node.inputs.empty() && !node.outputs.empty(); }

bool is_quantized_operator(std::string_view op_type) { return is_qlinear(op_type) || has(op_type, kOnCodes); }
bool is_quantized_operator(const Node& node) { return is_quantized_operator(node.op_type); }

std::vector<size_t> data_inputs(const Node& node) {
  size_t count = node.inputs.size();
  if (const size_t most = row_of(node.op_type).data_inputs; most > 0) count = std::min(count, most);
  std::vector<size_t> result(count);
  for (size_t i = 0; i < count; ++i) result[i] = i;
  return result;
}

std::optional<size_t> bias_input(const Node& node) {
  const size_t bias = row_of(node.op_type).bias;
  return is_given(node, bias) ? std::optional(bias) : std::nullopt;
}

std::optional<size_t> output_scale(const Node& node) {
  size_t scale = row_of(node.op_type).output_scale;
  if (scale == kNone && is_qlinear(node.op_type)) scale = 3;  // of one input
  return is_given(node, scale) ? std::optional(scale) : std::nullopt;
}

int64_t integers_from_opset(const Node& node) { return row_of(node.op_type).integers_from_opset; }

std::optional<size_t> output_axis(const Node& node, size_t rank) {
  if (rank < 2 || !has(node, kProduct)) return {};
  if (is_matmul(node)) return rank - 1;
  if (is_gemm(node)) return node.int_attribute("transB", 0) != 0 ? 0 : 1;
  return is_conv(node) ? 0 : 1;
}

std::optional<size_t> summed_axis(const Node& node, size_t rank) {
  const auto output = output_axis(node, rank);
  if (!output) return {};
  if (is_matmul(node)) return rank - 2;
  return 1 - *output;
}

std::optional<size_t> biased_axis(const Node& node, size_t rank) {
  const auto axis = output_axis(node, rank);
  const bool split = axis && *axis != 0 && node.int_attribute("group", 1) != 1;
  return split || is_matmul(node) ? std::nullopt : axis;
}

bool has_factors(const Node& node) {
  return is_gemm(node) && (node.float_attribute("alpha", 1) != 1 || node.float_attribute("beta", 1) != 1);
}

std::optional<Bends> bends(const Node& node) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  static const std::unordered_map<std::string_view, Bends> kBends{
      {"Gelu", {-4, kNone, -kNone}},   {"HardSwish", {-3, kNone, -kNone}}, {"Sigmoid", {-7.7, 7.7, -10}},
      {"Swish", {-10, kNone, -kNone}}, {"Tanh", {-4.2, 4.2, -kNone}},
  };
  if (!node.domain.empty()) return {};
  if (node.op_type == "HardSigmoid") {
    const double alpha = node.float_attribute("alpha", 0.2f), beta = node.float_attribute("beta", 0.5f);
    if (alpha > 0) return Bends{-beta / alpha, (1 - beta) / alpha, -beta / alpha};
  }
  const auto row = kBends.find(node.op_type);
  return row == kBends.end() ? std::nullopt : std::optional(row->second);
}

}  // namespace seqto::internal
