#include "model/op_traits.h"

#include <algorithm>
#include <unordered_map>

namespace seqto::internal {
namespace {

struct Row {
  std::string_view op_type;
  Traits traits = 0;
  size_t data_inputs = 0;  // the first so many; 0: all
};

constexpr Row kRows[] = {
    {"Abs", kNotNegative | kExactInHalf},
    {"Add", kUnfoldsWeights},
    {"Attention", 0, 2},
    {"AveragePool", kAverages | kScales | kPassThrough},
    {"BatchNormalization", kNormalization | kFollowsAxis, 2},
    {"BitShift", kUnfoldsWeights},
    {"Cast", kUnfoldsWeights},
    {"Clip", kClips | kKeepsCodes | kPassThrough, 1},
    {"Concat", kKeepsCodes | kMovesChannels | kExactInHalf | kUnfoldsWeights},
    {"Conv", kConv | kProduct, 2},
    {"ConvInteger", kDynamic | kOnCodes},
    {"ConvTranspose", kConv | kProduct | kFollowsAxis, 2},
    {"DepthToSpace", kKeepsCodes | kExactInHalf},
    {"DequantizeLinear", kUnfoldsWeights | kPair},
    {"Dropout", kScales | kShifts},
    {"DynamicQuantizeLSTM", kDynamic | kOnCodes},
    {"DynamicQuantizeMatMul", kDynamic | kOnCodes},
    {"Exp", kNotNegative},
    {"Expand", kKeepsCodes | kExactInHalf | kUnfoldsWeights},
    {"Flatten", kKeepsCodes | kMovesChannels | kExactInHalf | kPassThrough},
    {"GRU", kRecurrent, 3},
    {"Gather", kKeepsCodes | kTakesApart | kMovesChannels | kExactInHalf | kPassThrough | kFollowsAxis},
    {"GatherBlockQuantized", kOnCodes},
    {"GatherElements", kKeepsCodes | kExactInHalf | kPassThrough | kFollowsAxis},
    {"Gemm", kProduct, 2},
    {"GlobalAveragePool", kAverages | kScales | kShifts},
    {"GlobalMaxPool", kScales | kShifts | kExactInHalf},
    {"GroupNormalization", kNormalization, 2},
    {"HardSigmoid", kNotNegative},
    {"Identity", kKeepsCodes | kScales | kShifts | kExactInHalf | kUnfoldsWeights},
    {"InstanceNormalization", kNormalization | kFollowsAxis, 2},
    {"LSTM", kRecurrent, 3},
    {"LayerNormalization", kNormalization | kFollowsAxis, 2},
    {"LeakyRelu", kScales},
    {"MatMul", kProduct},
    {"MatMulInteger", kDynamic | kOnCodes},
    {"MatMulIntegerToFloat", kDynamic | kOnCodes},
    {"MatMulNBits", kOnCodes},
    {"Max", kExactInHalf},
    {"MaxPool", kKeepsCodes | kScales | kShifts | kExactInHalf | kPassThrough},
    {"Min", kExactInHalf},
    {"Mul", kUnfoldsWeights},
    {"Neg", kExactInHalf},
    {"Pad", kKeepsCodes | kMovesChannels, 1},
    {"QAttention", kDynamic | kOnCodes},
    {"QEmbedLayerNormalization", kOnCodes},
    {"QGemm", kOnCodes},
    {"QuantizeLinear", kUnfoldsWeights | kPair},
    {"RNN", kRecurrent, 3},
    {"ReduceMean", kAverages},
    {"Relu", kClips | kKeepsCodes | kScales | kNotNegative | kExactInHalf | kPassThrough},
    {"Reshape", kMovesValues | kKeepsCodes | kMovesChannels | kExactInHalf | kUnfoldsWeights | kPassThrough},
    {"Resize", kKeepsCodes | kPassThrough, 1},
    {"Shape", kTakesApart},
    {"Sigmoid", kNotNegative},
    {"Slice",
     kMovesValues | kKeepsCodes | kTakesApart | kMovesChannels | kExactInHalf | kUnfoldsWeights | kPassThrough},
    {"Softmax", kNotNegative},
    {"Softplus", kNotNegative},
    {"SpaceToDepth", kKeepsCodes | kMovesChannels | kExactInHalf},
    {"Split", kKeepsCodes | kTakesApart | kMovesChannels | kExactInHalf},
    {"Sqrt", kNotNegative},
    {"Squeeze", kMovesValues | kKeepsCodes | kMovesChannels | kExactInHalf | kUnfoldsWeights | kPassThrough},
    {"Sub", kUnfoldsWeights},
    {"Tile", kKeepsCodes | kExactInHalf},
    {"TopK", kKeepsCodes | kPassThrough},
    {"Transpose", kMovesValues | kKeepsCodes | kMovesChannels | kExactInHalf | kUnfoldsWeights | kPassThrough},
    {"Unsqueeze", kMovesValues | kKeepsCodes | kMovesChannels | kExactInHalf | kUnfoldsWeights | kPassThrough},
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

}  // namespace

bool has(std::string_view op_type, Traits traits) { return (row_of(op_type).traits & traits) != 0; }
bool has(const Node& node, Traits traits) { return has(node.op_type, traits); }

bool is_constant(const Node& node) { return node.op_type == "Constant"; }
bool is_quantize(const Node& node) { return node.op_type == "QuantizeLinear"; }
bool is_dequantize(const Node& node) { return node.op_type == "DequantizeLinear"; }
bool is_concat(const Node& node) { return node.op_type == "Concat"; }
bool is_max_pool(const Node& node) { return node.op_type == "MaxPool"; }
bool is_matmul(const Node& node) { return node.op_type == "MatMul"; }
bool is_gemm(const Node& node) { return node.op_type == "Gemm"; }
bool is_relu(const Node& node) { return node.op_type == "Relu"; }

bool moves_values(const Node& node) { return has(node, kMovesValues) && !node.inputs.empty() && !node.outputs.empty(); }

bool is_quantized_operator(const Node& node) { return node.op_type.starts_with("QLinear") || has(node, kOnCodes); }

std::vector<size_t> data_inputs(const Node& node) {
  size_t count = node.inputs.size();
  if (const size_t most = row_of(node.op_type).data_inputs; most > 0) count = std::min(count, most);
  std::vector<size_t> result(count);
  for (size_t i = 0; i < count; ++i) result[i] = i;
  return result;
}

std::optional<size_t> output_axis(const Node& node, size_t rank) {
  if (rank < 2 || !has(node, kProduct)) return {};
  if (is_matmul(node)) return rank - 1;
  if (is_gemm(node)) return node.int_attribute("transB", 0) != 0 ? 0 : 1;
  return node.op_type == "Conv" ? 0 : 1;
}

std::optional<size_t> summed_axis(const Node& node, size_t rank) {
  const auto output = output_axis(node, rank);
  if (!output) return {};
  if (is_matmul(node)) return rank - 2;
  return 1 - *output;
}

}  // namespace seqto::internal
