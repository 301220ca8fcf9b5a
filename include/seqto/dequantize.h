// Room: quantization. Back to float: the twin of a quantized model, whoever quantized it and in whatever form.
#pragma once

#include <string>
#include <vector>

#include "seqto/calibrate.h"
#include "seqto/model.h"

namespace seqto {

struct Dequantized {
  Model model;
  // What each quantized activation could hold, by the name of its float tensor: quantizing `model` with these ranges
  // gives the scales that it had.
  Ranges ranges;
  std::vector<std::string> actions;  // one sentence each
};

// Q/DQ pairs disappear, integer weights and biases become float initializers, integer operators (QLinear*, QGemm,
// *Integer, MatMulNBits ...) float ones. Where a quantized tensor cuts off below 0 what a layer can compute, a Relu
// (at 6: a Clip) that quantization had made superfluous comes back.
// Throws Error{kInvalidInput}: nothing is quantized; an operator without float form.
Dequantized dequantize(const Model& model);

}  // namespace seqto
