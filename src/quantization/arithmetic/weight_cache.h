// Room: quantization/arithmetic. Quantized weights, made once for all candidates of a model.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "quantization/arithmetic/arithmetic.h"
#include "quantization/arithmetic/halves.h"

namespace seqto::internal {

// Quantized weights by everything that shapes them; shared by all candidates of one model.
class WeightCache {
 public:
  const QuantParams& params(const std::string& name, const Tensor& weight, const WeightRule& rule);
  Tensor quantized(const std::string& name, const Tensor& weight, const QuantParams& params);
  // to_halves(), with whose note each candidate's encoding begins anew.
  const HalfTensor& halves(const std::string& name, const Tensor& weight, const Float16Options& options);
  // What `make` returns, made once for each key.
  const std::vector<Tensor>& tensors(const std::string& key, const std::function<std::vector<Tensor>()>& make);
  // The same with the last two dimensions exchanged; `dims`: the shape of the codes before that.
  Tensor transposed(const std::string& name, const Tensor& weight, const QuantParams& params,
                    const std::vector<int64_t>& dims);

 private:
  static std::string key(const std::string& name, const QuantParams& params);

  std::unordered_map<std::string, QuantParams> params_;
  std::unordered_map<std::string, Tensor> quantized_;
  std::unordered_map<std::string, HalfTensor> halves_;
  std::unordered_map<std::string, std::vector<Tensor>> tensors_;
};

}  // namespace seqto::internal
