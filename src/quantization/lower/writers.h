// Room: quantization/lower. What a plan asks for beside static QDQ; one rewriting after the other, each on the layers
// that it is given by name. The static part comes first, so that it sees the tensors that were calibrated.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "quantization/lower/operator_writer.h"
#include "quantization/plan/layer_fields.h"

namespace seqto::internal {

// Static, as operators on quantized tensors: onnxruntime's QOperator form.
Model write_qoperator(const Model& model, const GraphView& index, const LayerSet& layers, const RangeView& ranges,
                      const LayerwiseOptions& options, WeightCache& cache, Encoding& encoding);
// Keeps the runtime from making an integer MaxPool of one that was left in float (D55); after the static part.
void keep_pools_float(Model& model, Encoding& encoding);
// Integer operators, activations quantized at run time: onnxruntime's dynamic quantization.
Model write_dynamic(const Model& model, const LayerSet& layers, const LayerwiseOptions& options, WeightCache& cache,
                    Encoding& encoding);
// What encode_weights() decided.
Model write_weights(const Model& model, const Encoding& encoding);
// What encode_halves() decided.
Model write_float16(const Model& model, const Encoding& encoding);

}  // namespace seqto::internal
