#include "model/op_traits.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

namespace seqto::internal {
namespace {

bool in(std::string_view op_type, std::initializer_list<std::string_view> list) {
  return std::ranges::find(list, op_type) != list.end();
}

}  // namespace

bool moves_values(const Node& n) {
  static const std::unordered_set<std::string_view> kMoves{"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Slice"};
  return kMoves.contains(n.op_type) && !n.inputs.empty() && !n.outputs.empty();
}

std::vector<size_t> data_inputs(const Node& n) {
  size_t count = n.inputs.size();
  if (in(n.op_type, {"Clip", "Resize", "Pad", "Upsample"})) count = std::min<size_t>(count, 1);
  if (in(n.op_type, {"Conv", "ConvTranspose", "Gemm", "BatchNormalization", "InstanceNormalization",
                     "LayerNormalization", "GroupNormalization", "Attention"}))
    count = std::min<size_t>(count, 2);
  if (in(n.op_type, {"LSTM", "GRU", "RNN"})) count = std::min<size_t>(count, 3);
  std::vector<size_t> result(count);
  for (size_t i = 0; i < count; ++i) result[i] = i;
  return result;
}

}  // namespace seqto::internal
