// Room: quantization. Ranges of activations chosen by what the network makes of them.
//
// A calibrator looks at one tensor; whether its few large values matter only shows at the outputs. Here every range is
// narrowed as far as the outputs of the quantized model come nearer to the float model's. Nothing but scales and zero
// points changes, so file and speed stay what they were.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "seqto/calibrate.h"
#include "seqto/dataset.h"
#include "seqto/quantize.h"
#include "seqto/runner.h"

namespace seqto {

struct RefineOptions {
  // Samples used at most, evenly spaced; they are held in memory, with the float model's outputs.
  int64_t max_samples = 32;
  // What is done to a quantized model before it is run, as it will be before it is used: learned codes, corrected
  // biases. A range is then not chosen because its error happens to make up for another's mean.
  std::function<Model(const Model&)> corrected;
};

// `ranges` with some of them narrowed, for the static layers of `plan`. The model is the one that Quantizer takes.
//
// In the order of the graph, each range's ends are tried at 0.9, 0.8 ... of where they lie: both together, then the
// upper and the lower alone, as long as it helps. What helps: the squared error of all outputs, each relative to the
// float output's own square, summed over the samples, falls by half a percent, and falls on either half of the samples;
// what serves one half alone would not serve others.
//
// Cost: three or more quantized models for each tensor, loaded and run on the samples. Deterministic.
// Throws Error{kInvalidInput} as Quantizer does.
Ranges refine_ranges(const Model& model, const Ranges& ranges, const QuantizeOptions& options, const Plan& plan,
                     const Dataset& data, std::span<const int64_t> samples, Runner& runner, const RefineOptions& = {},
                     const Env& = {});

}  // namespace seqto
