#include <fmt/format.h>

#include "quantization/qdq_writer.h"

namespace seqto::internal {
namespace {

template <class T>
void append_bytes(std::string& key, const std::vector<T>& values) {
  key.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

}  // namespace

const QuantParams& WeightCache::params(const std::string& name, const Tensor& weight, const WeightRule& rule) {
  std::string key =
      fmt::format("{}\n{} {} {} {}", name, static_cast<int>(rule.type), rule.symmetric, rule.axis.value_or(-1),
                  rule.block_size);
  auto it = params_.find(key);
  if (it == params_.end()) it = params_.emplace(key, weight_params(weight, rule)).first;
  return it->second;
}

Tensor WeightCache::quantized(const std::string& name, const Tensor& weight, const QuantParams& params) {
  // The scales are part of the key: a bias can enlarge them in one candidate and not in another.
  std::string key = fmt::format("{}\n{} {} {}\n", name, static_cast<int>(params.type), params.axis.value_or(-1),
                                params.block_size);
  append_bytes(key, params.scale);
  append_bytes(key, params.zero_point);
  auto it = quantized_.find(key);
  if (it == quantized_.end()) {
    it = quantized_.emplace(key, quantize(weight, params)).first;
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
