#include "quantization/arithmetic/store_weight.h"

#include <fmt/format.h>

#include "quantization/arithmetic/nbits.h"

namespace seqto::internal {

int64_t StoredWeight::file_bytes() const {
  // Names and nodes: from files with names of common length.
  int64_t overhead = bits == 8 ? 256 : 900;
  return overhead + std::ssize(codes.bytes()) + std::ssize(scale.bytes()) + std::ssize(zero_point.bytes());
}

Tensor scales_for(const Tensor& weight, const std::vector<float>& scales) {
  return scale_tensor(scales, {std::ssize(scales)}, weight.type());
}

namespace {

Tensor bytes_tensor(std::vector<uint8_t> values) {
  std::vector<int64_t> dims{std::ssize(values)};
  return Tensor::from(DataType::kUint8, dims, std::move(values));
}

// The part of a tensor that begins at index `begin` of its first axis, over the others.
Tensor slice(const Tensor& tensor, int64_t begin) {
  std::vector<int64_t> dims(tensor.dims().begin() + 1, tensor.dims().end());
  size_t bytes = tensor.bytes().size() / static_cast<size_t>(tensor.dims()[0]);
  auto owner = std::make_shared<const Tensor>(tensor);
  return Tensor(tensor.type(), dims, owner, tensor.bytes().subspan(static_cast<size_t>(begin) * bytes, bytes));
}

StoredWeight quantize_8(const Tensor& weight, const Cut& cut, bool symmetric) {
  WeightRule rule{.type = symmetric ? DataType::kInt8 : DataType::kUint8,
                  .symmetric = symmetric,
                  .reduce_range = false,
                  .min_real_range = {},
                  .axis = 1,
                  .bounds = {},
                  .compat_onnxruntime = false};
  Grouping g = cut.blocks;
  if (g.before == 1) g = {1, 1, g.outer * g.channels, g.after};  // one run for all
  Tensor blocks = pad(weight, cut).reshaped({g.outer, g.before, g.channels, g.after});
  std::vector<std::byte> codes;
  std::vector<float> scale;
  std::vector<uint8_t> zero_point;
  StoredWeight stored{cut, 8, {}, {}, {}};
  for (int64_t o = 0; o < g.outer; ++o) {
    Tensor part = slice(blocks, o);
    QuantParams params = weight_params(part, rule);
    Tensor q = quantize(part, params);
    scale.insert(scale.end(), params.scale.begin(), params.scale.end());
    zero_point.insert(zero_point.end(), params.zero_point.begin(), params.zero_point.end());
    if (g.outer == 1) stored.codes = q;
    else codes.insert(codes.end(), q.bytes().begin(), q.bytes().end());
  }
  if (g.outer > 1) stored.codes = Tensor::from(rule.type, blocks.dims(), std::move(codes));
  stored.scale = scales_for(weight, scale);
  if (!symmetric) stored.zero_point = bytes_tensor(std::move(zero_point));
  return stored;
}

// [outer, a, b, inner] to [outer, b, a, inner].
template <class T>
std::vector<T> swapped(std::span<const T> values, int64_t outer, int64_t a, int64_t b, int64_t inner) {
  std::vector<T> result;
  result.reserve(values.size());
  auto size = static_cast<size_t>(a * b * inner);
  for (int64_t o = 0; o < outer; ++o) {
    auto part = values.subspan(static_cast<size_t>(o) * size, size);
    if (inner == 1) {
      auto turned = transposed(part, a, b);
      result.insert(result.end(), turned.begin(), turned.end());
      continue;
    }
    for (int64_t j = 0; j < b; ++j)
      for (int64_t i = 0; i < a; ++i) {
        auto from = part.begin() + (i * b + j) * inner;
        result.insert(result.end(), from, from + inner);
      }
  }
  return result;
}

StoredWeight quantize_4(const Tensor& weight, const Cut& cut, bool symmetric) {
  const Grouping& g = cut.blocks;
  Tensor padded = pad(weight, cut);
  std::vector<float> values = to_floats(padded);
  if (g.before > 1) values = swapped(std::span<const float>(values), g.outer, g.before, g.channels, g.after);
  NbitsRuns q = quantize_nbits(
      values, g.outer * g.channels,
      {.block_size = g.before * g.after, .symmetric = symmetric, .halves = weight.type() == DataType::kFloat16});
  if (g.before > 1) q.codes = swapped(std::span<const uint8_t>(q.codes), g.outer, g.channels, g.before, g.after);
  size_t half = (q.codes.size() + 1) / 2;
  std::vector<uint8_t> packed(q.codes.begin(), q.codes.begin() + static_cast<std::ptrdiff_t>(half));
  for (size_t i = half; i < q.codes.size(); ++i) packed[i - half] |= static_cast<uint8_t>(q.codes[i] << 4);
  if (symmetric) q.zero_point = {8};
  return {cut, 4, bytes_tensor(std::move(packed)), scales_for(weight, q.scale), bytes_tensor(std::move(q.zero_point))};
}

}  // namespace

StoredWeight store_weight(WeightCache& cache, const std::string& name, const Tensor& weight, const Cut& cut, int bits,
                          bool symmetric) {
  const Grouping& b = cut.blocks;
  auto key = fmt::format("stored {} {} {} {} {} {}\n{}", bits, symmetric, b.outer, b.before, b.channels, b.after, name);
  const auto& made = cache.tensors(key, [&] {
    StoredWeight s = bits == 8 ? quantize_8(weight, cut, symmetric) : quantize_4(weight, cut, symmetric);
    weight.release();
    return std::vector{s.codes, s.scale, s.zero_point};
  });
  return {cut, bits, made[0], made[1], made[2]};
}

}  // namespace seqto::internal
