// Room: quantization. What a model goes through before it is calibrated and quantized.
#pragma once

#include "seqto/model.h"
#include "seqto/runner.h"

namespace seqto {

// prepare() and, with a runner, its basic optimization: what onnxruntime's quant_pre_process does. Nothing is written
// beside the model; weights stay mapped. In this order: names, opset (Upsample becomes Resize), constants,
// optimization, batch normalizations, shapes, and the metadata tag by which onnxruntime knows it. A model that the
// runtime does not take is left as it is; the actions say why. A name of a layer stays where the layer stays.
Prepared preprocess(const Model& model, Runner* runner, const PrepareOptions& = {});

// Lets the runtime load what was prepared of `original`. A runtime that takes neither is named in the actions: the
// model may be for another one. Without a runner they say that nothing was checked. Throws Error{kInternal} where the
// runtime takes `original` alone.
void check_loads(Prepared& prepared, const Model& original, Runner* runner);

}  // namespace seqto
