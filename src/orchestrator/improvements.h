// Room: orchestrator. What makes a study's candidates more accurate, found once and kept in its folder.
#pragma once

#include <filesystem>

#include "seqto/improvers.h"
#include "seqto/metrics.h"
#include "seqto/tune.h"

namespace seqto::internal {

struct Improvements {
  Ranges ranges;
  SchemeCorrections corrections;
};

// Of the prepared model under options.quantize, for the schemes to choose from: static or dynamic layers as `improvers`
// say, layers whose weights alone are quantized as improvers_of says. A resumed study takes them from
// corrections.npz in its folder and from its note "improved ranges".
Improvements find_improvements(const TuneOptions& options, const Model& model, const Ranges& ranges,
                               const Dataset& data, std::span<const int64_t> samples, Runner& runner, Study& study,
                               const Env& env);

// What layers of this scheme get. A search that was told nothing learns the rounding of int8_weights, of very wide
// layers it corrects the biases, as of int4_weights; with less than five minutes of time it corrects biases alone.
bool corrects_weights(const TuneOptions& options);  // whether it was told nothing
ImproveOptions improvers_of(const TuneOptions& options, Scheme scheme);

}  // namespace seqto::internal
