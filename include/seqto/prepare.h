// Room: quantization. Models made fit: what the runtime optimizes first, and quantized ones back to float.
#pragma once

#include <string>
#include <vector>

#include "seqto/calibrate.h"
#include "seqto/model.h"
#include "seqto/runner.h"

namespace seqto {

// The same graph with float32 in place of every float16, inputs and outputs too; names stay. Bodies of If, Loop and
// Scan are left as they are.
Model in_float32(const Model& model);
// Whether it has operators on float16 beside those that cast it, as float32 models have behind stored halves.
bool computes_in_float16(const Model& model);

// --- What a model goes through before it is calibrated and quantized

// prepare() and, with a runner, its basic optimization: what onnxruntime's quant_pre_process does. Nothing is written
// beside the model; weights stay mapped. In this order: names, opset (Upsample becomes Resize), constants,
// optimization, batch normalizations, shapes, and the metadata tag by which onnxruntime knows it. A model that the
// runtime does not take is left as it is; the actions say why. A name of a layer stays where the layer stays.
Prepared preprocess(const Model& model, Runner* runner, const PrepareOptions& = {});

// Lets the runtime load what was prepared of `original`. A runtime that takes neither is named in the actions: the
// model may be for another one. Without a runner they say that nothing was checked. Throws Error{kInternal} where the
// runtime takes `original` alone.
void check_loads(Prepared& prepared, const Model& original, Runner* runner);

// --- Back to float: the twin of a quantized model, whoever quantized it and in whatever form

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
