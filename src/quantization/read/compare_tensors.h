// Room: quantization/read. Which tensors of a quantized model to compare with which of the float one, whatever the
// form.
#pragma once

#include <string>
#include <vector>

#include "seqto/model.h"

namespace seqto::internal {

// A tensor of the float model with its selves in the quantized one.
struct TensorPair {
  std::string tensor;
  std::string before;  // before its QuantizeLinear; "" where the layer writes integers, or nothing is quantized there
  std::string after;   // dequantized, or as the layer writes it
};

struct WeightPair {
  std::string tensor;  // initializer of the float model
  Tensor now;          // what it is worth in the quantized one
  int64_t channel_axis = 0;
};

struct Comparison {
  Model quantized;  // with a DequantizeLinear for each tensor that is kept in integers
  std::vector<TensorPair> activations;
  std::vector<WeightPair> weights;
};
Comparison compare_tensors(const Model& float_model, const Model& quantized);

}  // namespace seqto::internal
