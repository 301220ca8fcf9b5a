// Room: quantization. Rounding learned on data.
//
// Each weight goes up or down so that its layer's output, not the weight itself, comes nearest to the float model's.
// The layers are taken in the order of the graph. A layer's inputs are those that it really gets, from the quantized
// layers before it; the target is its output in the float model. Both enter as second moments, collected in one pass
// for each depth of the graph. A pass goes on from the values that finished layers gave, where those of all samples
// take 192 MiB at most, so memory has a bound whatever the number of samples. Given the moments the answer is closed:
// successive rounding along a Cholesky factor (as OBQ and GPTQ do; Nagel et al. 2020 state the objective), a few sweeps
// of coordinate descent, and a bias that takes up what is left of the mean. How far the moments are trusted is chosen
// for each layer by what is learned on half of the samples and judged by the other half. Scales and zero points stay,
// so file and speed stay what they were, and codes of a reduced range stay in it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "seqto/dataset.h"
#include "seqto/quantize.h"
#include "seqto/runner.h"

namespace seqto {

struct RoundingOptions {
  // Samples used at most, the first ones.
  int64_t max_samples = 128;
  // Rows of a layer's moments, over all samples, for each of its weights of one output; more make the moments
  // steadier, fewer the pass faster. Positions of a big feature map beyond that are skipped evenly.
  int64_t rows_per_weight = 32;
  int64_t max_rows = 1 << 15;  // for wide layers; fewer rows than that are not cut
  // Layers with more weights of one output are left as they are: time grows with the cube. 0: no limit.
  int64_t max_inputs = 0;
  // Asked before each step, of the layers that lie equally deep; true: those that are left stay as they are.
  std::function<bool()> enough;
};

struct RoundedLayer {
  Tensor codes;              // as the model stores them, packed where it packs them, under these scales and zero points
  std::vector<float> scale;  // one, one an output or one a block
  std::vector<int32_t> zero_point;  // one, or one a scale
  std::vector<float> bias;          // the layer's bias in real values; empty: left as it is
  // Mean squared error of the layer's output on the samples, summed over its channels. `nearest` has a corrected bias
  // too; `learned` is never larger.
  double error_nearest = 0, error_learned = 0;
};
using Rounding = std::map<LayerId, RoundedLayer>;

// Layers: Conv (1-D, 2-D, grouped), Gemm and MatMul with constant weights of 2 to 16 bits that nothing else reads, in
// any form that Quantizer writes in float or QDQ, of the same name in both models. `quantized` was made of
// `float_model`. Others are left alone. Deterministic. Cost: both networks run once or a
// few times, up to half as often as they are deep where nothing can be kept.
Rounding learn_rounding(const Model& float_model, const Model& quantized, const Dataset& data,
                        std::span<const int64_t> samples, Runner& runner, const RoundingOptions& = {}, const Env& = {});

// `quantized` with these codes and biases; its layers may be in QOperator form as well. Layers that it does not hold in
// this form, type, scale and zero point, are left alone.
Model apply_rounding(const Model& quantized, const Rounding& rounding);

}  // namespace seqto
