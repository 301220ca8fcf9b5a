#include "quantization/lower/folded_weights.h"

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
    tensor = edit.compute(
        "Slice", {tensor, edit.add_int64s({0}), edit.add_int64s({rows ? to.before : to.after}), edit.add_int64s({1})},
        name + "_whole");
  }
  return edit.compute("Reshape", {tensor, edit.add_int64s(dims)}, name + "_dequantized");
}

// The codes, one byte each, in `shape`.
std::string unpack(GraphEdit& edit, const std::string& name, const StoredWeight& stored,
                   const std::vector<int64_t>& shape) {
  if (stored.bits == 8) return edit.add(name + "_quantized", stored.codes.reshaped(shape));
  std::string packed = edit.add(name + "_packed", stored.codes), four = edit.add_uint8(4);
  std::vector<Attribute> left{{"direction", std::string("LEFT")}}, right{{"direction", std::string("RIGHT")}};
  std::string high = edit.compute("BitShift", {packed, four}, name + "_high", right);
  std::string low = edit.compute("BitShift", {packed, four}, name + "_shifted", left);
  low = edit.compute("BitShift", {low, four}, name + "_low", right);
  std::string codes = edit.compute("Concat", {low, high}, name + "_codes", {{"axis", int64_t{0}}});
  int64_t count = 1;
  for (int64_t d : shape) count *= d;
  if (count % 2)
    codes = edit.compute("Slice", {codes, edit.add_int64s({0}), edit.add_int64s({count}), edit.add_int64s({0})},
                         name + "_even");
  return edit.compute("Reshape", {codes, edit.add_int64s(shape)}, name + "_quantized");
}

}  // namespace

std::string add_folded(GraphEdit& edit, const std::string& name, const std::vector<int64_t>& dims,
                       const StoredWeight& stored) {
  const Grouping& b = stored.cut.blocks;
  auto plain = b == stored.cut.whole ? scale_dims(dims, b) : std::nullopt;
  std::vector<int64_t> code_shape = plain ? dims : std::vector{b.outer, b.before, b.channels, b.after};
  std::vector<int64_t> scale_shape = plain ? *plain : std::vector{b.outer, int64_t{1}, b.channels, int64_t{1}};
  std::vector<Attribute> to{{"to", static_cast<int64_t>(stored.scale.type())}};

  std::string tensor = edit.compute("Cast", {unpack(edit, name, stored, code_shape)}, name + "_cast", to);
  if (!stored.zero_point.bytes().empty()) {
    auto shape = stored.zero_point.element_count() == 1 ? std::vector<int64_t>{} : scale_shape;
    std::string zero = edit.add(name + "_zero_point", stored.zero_point.reshaped(shape));
    zero = edit.compute("Cast", {zero}, name + "_zero_cast", to);
    tensor = edit.compute("Sub", {tensor, zero}, name + "_centered");
  }
  std::string scale = edit.add(name + "_scale", stored.scale.reshaped(scale_shape));
  tensor = edit.compute("Mul", {tensor, scale}, name + (plain ? "_dequantized" : "_blocks"));
  return plain ? tensor : restore(edit, tensor, name, dims, stored.cut);
}

}  // namespace seqto::internal
