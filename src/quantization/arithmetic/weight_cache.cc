#include "quantization/arithmetic/weight_cache.h"

#include <fmt/format.h>

#include <algorithm>

namespace seqto::internal {
namespace {

template <class T>
void append_bytes(std::string& key, const std::vector<T>& values) {
  key.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

// 8-bit codes [..., rows, columns] -> [..., columns, rows].
Tensor last_dims_exchanged(const Tensor& codes) {
  std::vector<int64_t> dims = codes.dims();
  size_t rank = dims.size();
  size_t rows = static_cast<size_t>(dims[rank - 2]), columns = static_cast<size_t>(dims[rank - 1]);
  std::swap(dims[rank - 2], dims[rank - 1]);
  std::span<const uint8_t> in = codes.values<uint8_t>();
  std::vector<uint8_t> out(in.size());
  constexpr size_t kTile = 64;  // both sides of a tile stay in the nearest cache
  for (size_t base = 0; base < in.size(); base += rows * columns)
    for (size_t r0 = 0; r0 < rows; r0 += kTile)
      for (size_t c0 = 0; c0 < columns; c0 += kTile)
        for (size_t r = r0; r < std::min(rows, r0 + kTile); ++r)
          for (size_t c = c0; c < std::min(columns, c0 + kTile); ++c)
            out[base + c * rows + r] = in[base + r * columns + c];
  return Tensor::from(codes.type(), std::move(dims), std::move(out));
}

}  // namespace

const QuantParams& WeightCache::params(const std::string& name, const Tensor& weight, const WeightRule& rule) {
  std::string key =
      fmt::format("{}\n{} {} {} {} {} {}", name, static_cast<int>(rule.type), rule.symmetric, rule.reduce_range,
                  rule.axis.value_or(-1), rule.block_size, static_cast<int>(rule.clipping));
  auto it = params_.find(key);
  if (it == params_.end()) it = params_.emplace(key, weight_params(weight, rule)).first;
  return it->second;
}

std::string WeightCache::key(const std::string& name, const QuantParams& params) {
  // The scales are part of the key: a bias can enlarge them in one candidate and not in another.
  std::string key = fmt::format("{}\n{} {} {} {}\n", name, static_cast<int>(params.type), params.axis.value_or(-1),
                                params.block_size, params.reduced);
  append_bytes(key, params.scale);
  append_bytes(key, params.zero_point);
  return key;
}

Tensor WeightCache::quantized(const std::string& name, const Tensor& weight, const QuantParams& params) {
  auto [it, is_new] = quantized_.try_emplace(key(name, params));
  if (is_new) {
    it->second = quantize(weight, params);
    weight.release();
  }
  return it->second;
}

Tensor WeightCache::transposed(const std::string& name, const Tensor& weight, const QuantParams& params,
                               const std::vector<int64_t>& dims) {
  auto [it, is_new] = quantized_.try_emplace(key(name, params) + "transposed");
  if (is_new) {
    it->second = last_dims_exchanged(quantize(weight, params).reshaped(dims));
    weight.release();
  }
  return it->second;
}

const std::vector<Tensor>& WeightCache::tensors(const std::string& key,
                                                const std::function<std::vector<Tensor>()>& make) {
  auto it = tensors_.find(key);
  if (it == tensors_.end()) it = tensors_.emplace(key, make()).first;
  return it->second;
}

}  // namespace seqto::internal
