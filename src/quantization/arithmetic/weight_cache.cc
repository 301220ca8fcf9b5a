#include "quantization/arithmetic/weight_cache.h"

#include <fmt/format.h>

#include "quantization/arithmetic/nbits.h"

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
  const int64_t rows = dims[rank - 2], columns = dims[rank - 1];
  std::swap(dims[rank - 2], dims[rank - 1]);
  std::span<const uint8_t> in = codes.values<uint8_t>();
  std::vector<uint8_t> out;
  out.reserve(in.size());
  for (; !in.empty(); in = in.subspan(static_cast<size_t>(rows * columns))) {
    const auto turned = transposed(in.first(static_cast<size_t>(rows * columns)), rows, columns);
    out.insert(out.end(), turned.begin(), turned.end());
  }
  return Tensor::from(codes.type(), std::move(dims), std::move(out));
}

}  // namespace

const QuantParams& WeightCache::params(const std::string& name, const Tensor& weight, const WeightRule& rule) {
  std::string key =
      fmt::format("{}\n{} {} {} {} {} {} {}", name, static_cast<int>(rule.type), rule.symmetric, rule.reduce_range,
                  rule.axis.value_or(-1), rule.block_size, static_cast<int>(rule.clipping), rule.power_of_two);
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

const HalfTensor& WeightCache::halves(const std::string& name, const Tensor& weight, const Float16Options& options) {
  const std::string key = name + (options.compute ? "\ncomputes" : "");
  auto it = halves_.find(key);
  if (it == halves_.end()) it = halves_.emplace(key, to_halves(name, weight, options)).first;
  return it->second;
}

const std::vector<Tensor>& WeightCache::tensors(const std::string& key,
                                                const std::function<std::vector<Tensor>()>& make) {
  auto it = tensors_.find(key);
  if (it == tensors_.end()) it = tensors_.emplace(key, make()).first;
  return it->second;
}

}  // namespace seqto::internal
