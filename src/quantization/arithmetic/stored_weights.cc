#include "quantization/arithmetic/stored_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "model/float16.h"
#include "quantization/plan/overrides.h"
#include "seqto/error.h"

namespace seqto::internal {

Tensor in_type(DataType type, std::vector<int64_t> dims, std::vector<float> values) {
  if (type != DataType::kFloat16) return float_tensor(std::move(dims), std::move(values));
  std::vector<uint16_t> halves;
  for (float v : values) halves.push_back(float_to_half(v));
  return Tensor::from(DataType::kFloat16, std::move(dims), std::move(halves));
}

namespace {

[[noreturn]] void no_weight(const std::string& found, const std::string& expected) {
  throw Error(Code::kInvalidInput,
              fmt::format("[dequantize] {} found; {} expected; quantize the model again", found, expected));
}

}  // namespace

Tensor dequantized(const Tensor& codes, const StoredScale& how) {
  int64_t count = codes.element_count(), scales = how.scale->element_count();
  int64_t rank = static_cast<int64_t>(codes.dims().size());
  int64_t inner = 1, length = 1, blocks = 1, block = 1;
  if (scales > 1) {
    const auto axis = normalized_axis(how.axis, codes.dims().size());
    if (!axis) no_weight(fmt::format("scales along axis {} of {} dimensions", how.axis, rank), "one of its axes");
    length = codes.dims()[static_cast<size_t>(*axis)];
    for (int64_t d = *axis + 1; d < rank; ++d) inner *= codes.dims()[static_cast<size_t>(d)];
    block = how.block > 0 ? how.block : 1;
    blocks = (length + block - 1) / block;
  }
  bool blocked = how.block > 0 && scales > 1;
  int64_t zero_points = how.zero_point ? how.zero_point->element_count() : 0;
  int64_t needed = scales == 1 ? 1 : blocked ? count / std::max<int64_t>(1, length) * blocks : length;
  if (count > 0 && (scales < needed || (zero_points > 1 && zero_points < needed)))
    no_weight(fmt::format("{} scales and {} zero points", scales, zero_points), fmt::format("{} of each", needed));
  std::vector<float> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = 0;
    if (scales > 1) {
      int64_t along = (i / inner) % length;
      // Scales in blocks have the codes' shape with one axis shortened; else they are a vector.
      at = blocked ? (i / (inner * length) * blocks + along / block) * inner + i % inner : along;
    }
    double zero = zero_points == 0 ? 0 : element(*how.zero_point, zero_points == 1 ? 0 : at);
    values[static_cast<size_t>(i)] =
        static_cast<float>(element(codes, i) - zero) * static_cast<float>(element(*how.scale, at));
  }
  return in_type(how.scale->type(), codes.dims(), std::move(values));
}

Tensor unpacked_nbits(const Node& node, const Tensor& packed, const Tensor& scales, const Tensor* zero_points) {
  int64_t k = node.int_attribute("K", 0), n = node.int_attribute("N", 0), bits = node.int_attribute("bits", 4);
  int64_t block = node.int_attribute("block_size", 32);
  constexpr int64_t kLargest = int64_t{1} << 30;
  bool possible = (bits == 2 || bits == 4 || bits == 8) && std::min({k, n, block}) > 0 &&
                  std::max({k, n, block}) < kLargest && block * bits % 8 == 0;
  if (!possible)
    no_weight(fmt::format("{} '{}' of {} x {} weights in blocks of {}, {} bits each,", node.op_type, node.name, k, n,
                          block, bits),
              "sizes above 0 and 2, 4 or 8 bits");
  int64_t blocks = (k + block - 1) / block;
  int64_t zero_bytes = (blocks * bits + 7) / 8;
  auto bytes = packed.values<uint8_t>();
  int64_t per_byte = 8 / bits, row_bytes = blocks * (block * bits / 8);
  int64_t zeros = !zero_points              ? 0
                  : zero_points->is_float() ? zero_points->element_count()
                                            : std::ssize(zero_points->bytes());
  if (std::ssize(bytes) < n * row_bytes || scales.element_count() < n * blocks ||
      (zero_points && zeros < n * (zero_points->is_float() ? blocks : zero_bytes)))
    no_weight(fmt::format("{} '{}' with {} bytes of weights, {} scales and {} zero points", node.op_type, node.name,
                          bytes.size(), scales.element_count(), zeros),
              fmt::format("{} bytes and {} scales", n * row_bytes, n * blocks));
  int mask = (1 << bits) - 1;
  auto code = [&](std::span<const uint8_t> from, int64_t row, int64_t i) {
    return (from[static_cast<size_t>(row + i / per_byte)] >> (i % per_byte * bits)) & mask;
  };
  std::vector<float> values(static_cast<size_t>(k * n));
  for (int64_t column = 0; column < n; ++column)
    for (int64_t i = 0; i < k; ++i) {
      int64_t b = i / block;
      double zero = 1 << (bits - 1);
      if (zero_points && zero_points->is_float()) zero = element(*zero_points, column * blocks + b);
      else if (zero_points) zero = code(zero_points->values<uint8_t>(), column * zero_bytes, b);
      float scale = static_cast<float>(element(scales, column * blocks + b));
      values[static_cast<size_t>(i * n + column)] =
          static_cast<float>(code(bytes, column * row_bytes, i) - zero) * scale;
    }
  return in_type(scales.type(), {k, n}, std::move(values));
}

Tensor unpacked_rows(const Node& node, const Tensor& packed, const StoredScale& how) {
  const int64_t bits = node.int_attribute("bits", 4);
  const auto& scale_dims = how.scale->dims();
  const auto bytes = packed.values<uint8_t>();
  const int64_t blocks = scale_dims.empty() ? 0 : scale_dims.back(),
                rows = how.scale->element_count() / std::max<int64_t>(1, blocks);
  const bool possible =
      (bits == 2 || bits == 4 || bits == 8) && rows > 0 && blocks > 0 && std::ssize(bytes) % rows == 0;
  if (!possible || (how.axis != -1 && how.axis != std::ssize(scale_dims) - 1))
    no_weight(fmt::format("{} '{}' of {} bytes of {} bits and {} scales", node.op_type, node.name, bytes.size(), bits,
                          how.scale->element_count()),
              "whole rows of 2, 4 or 8 bits with blocks along them");
  const int64_t per_byte = 8 / bits;
  const auto code = [&](std::span<const uint8_t> from, int64_t at) {
    return from[static_cast<size_t>(at / per_byte)] >> (at % per_byte * bits) & ((1 << bits) - 1);
  };
  const auto unpacked = [&](const Tensor& from, std::vector<int64_t> dims) {
    const auto source = from.values<uint8_t>();
    const int64_t length = dims.back(), row_bytes = std::ssize(source) / rows;
    if (length > row_bytes * per_byte)
      no_weight(fmt::format("{} bytes of zero points", source.size()), "one for each scale");
    std::vector<uint8_t> codes;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < length; ++i)
        codes.push_back(static_cast<uint8_t>(code(source, r * row_bytes * per_byte + i)));
    return Tensor::from(DataType::kUint8, std::move(dims), std::move(codes));
  };
  auto dims = scale_dims;
  dims.back() = std::ssize(bytes) / rows * per_byte;
  const Tensor zero = how.zero_point
                          ? unpacked(*how.zero_point, scale_dims)
                          : Tensor::from(DataType::kUint8, {}, std::vector{static_cast<uint8_t>(1 << (bits - 1))});
  return dequantized(unpacked(packed, std::move(dims)), {how.scale, &zero, how.axis, how.block});
}

Tensor transposed(const Tensor& tensor, const std::vector<int64_t>& permutation) {
  size_t rank = tensor.dims().size();
  std::vector<int64_t> dims(rank), stride(rank, 1), step(rank);
  for (size_t d = rank; d-- > 1;) stride[d - 1] = stride[d] * tensor.dims()[d];
  for (size_t d = 0; d < rank; ++d) {
    dims[d] = tensor.dims()[static_cast<size_t>(permutation[d])];
    step[d] = stride[static_cast<size_t>(permutation[d])];
  }
  std::vector<float> values;
  values.reserve(static_cast<size_t>(tensor.element_count()));
  std::vector<int64_t> at(rank, 0);
  for (int64_t i = 0; i < tensor.element_count(); ++i) {
    values.push_back(
        static_cast<float>(element(tensor, std::inner_product(at.begin(), at.end(), step.begin(), int64_t{0}))));
    for (size_t d = rank; d-- > 0;) {
      if (++at[d] < dims[d]) break;
      at[d] = 0;
    }
  }
  return in_type(tensor.type(), dims, std::move(values));
}

}  // namespace seqto::internal
