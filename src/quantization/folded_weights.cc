#include "quantization/folded_weights.h"

namespace seqto::internal {
namespace {

// Blocks back to the weight's own shape, the padding cut away.
std::string restore(GraphEdit& edit, std::string tensor, const std::string& name, const std::vector<int64_t>& dims,
                    const Cut& cut) {
  if (cut.is_padded()) {
    const Grouping &from = cut.padded, &to = cut.whole;
    bool rows = from.before != to.before;
    std::vector<int64_t> runs = rows ? std::vector{from.outer, from.before, from.channels * from.after}
                                     : std::vector{from.outer * from.channels, from.after};
    tensor = edit.compute("Reshape", {tensor, edit.add_int64s(runs)}, name + "_padded");
    tensor = edit.compute("Slice",
                          {tensor, edit.add_int64s({0}), edit.add_int64s({rows ? to.before : to.after}),
                           edit.add_int64s({1})},
                          name + "_whole");
  }
  return edit.compute("Reshape", {tensor, edit.add_int64s(dims)}, name + "_dequantized");
}

}  // namespace

int64_t StoredWeight::size_bytes() const {
  return static_cast<int64_t>(codes.bytes().size() + scale.bytes().size() + zero_point.bytes().size());
}

std::string add_folded(GraphEdit& edit, const std::string& name, const std::vector<int64_t>& dims,
                       const StoredWeight& stored, const std::string& codes) {
  const Grouping& b = stored.cut.blocks;
  auto plain = b == stored.cut.whole ? scale_dims(dims, b) : std::nullopt;
  bool reshaped = !plain;
  std::vector<int64_t> code_shape = plain ? dims : std::vector{b.outer, b.before, b.channels, b.after};
  std::vector<int64_t> scale_shape = plain ? *plain : std::vector{b.outer, int64_t{1}, b.channels, int64_t{1}};

  std::string input = codes;
  if (input.empty()) input = edit.add(name + "_quantized", stored.codes.reshaped(code_shape));
  else input = edit.compute("Reshape", {input, edit.add_int64s(code_shape)}, name + "_codes");
  auto type = static_cast<int64_t>(stored.scale.type());
  std::string tensor = edit.compute("Cast", {input}, name + "_cast", {{"to", type}});
  if (stored.zero_point.element_count() > 1 || !stored.zero_point.bytes().empty()) {
    auto shape = stored.zero_point.element_count() == 1 ? std::vector<int64_t>{} : scale_shape;
    std::string zero = edit.add(name + "_zero_point", stored.zero_point.reshaped(shape));
    tensor = edit.compute("Sub", {tensor, zero}, name + "_centered");
  }
  std::string scale = edit.add(name + "_scale", stored.scale.reshaped(scale_shape));
  tensor = edit.compute("Mul", {tensor, scale}, name + (reshaped ? "_blocks" : "_dequantized"));
  return reshaped ? restore(edit, tensor, name, dims, stored.cut) : tensor;
}

}  // namespace seqto::internal
