// Room: orchestrator/tune. What makes a study's candidates more accurate, found once and kept in its folder.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "orchestrator/tune/time_limit.h"
#include "seqto/improve.h"
#include "seqto/metrics.h"
#include "seqto/tune.h"

namespace seqto::internal {

struct Improvements {
  Ranges ranges;
  SchemeCorrections corrections;
  bool left_out = false;  // of some scheme, for want of time
};

// Of the prepared model under options.quantize, for the schemes to choose from, each with its own fields: static or
// dynamic layers as `improvers` say, layers whose weights alone are quantized as improvers_of says. Refined ranges are
// the quantized scheme's, and all others' that name no method. `named`: as named_ranges finds them. A resumed study
// takes them from corrections.npz in its folder and from its note "improved ranges"; what one left out for want of time
// stays so.
Improvements find_improvements(const TuneOptions& options, const Model& model, const Ranges& ranges,
                               const std::map<std::string, Ranges>& named, const Dataset& data,
                               std::span<const int64_t> samples, Runner& runner, Study& study, const TimeLimit& limit,
                               const Env& env);
// For one scheme of which weights alone are quantized, ahead of that and of any ranges. They are in corrections.npz
// from then on, with the note "first corrections": find_improvements goes on from them, whatever time there is by then.
SchemeCorrections find_first_corrections(const TuneOptions& options, const DetailedScheme& scheme, const Model& model,
                                         const Dataset& data, std::span<const int64_t> samples, Runner& runner,
                                         Study& study, const Env& env);

// Of the corrections that all plans of the study share.
std::filesystem::path corrections_file(const TuneOptions& options);

// Whether a search improves weight-only layers by itself: it was told nothing else, and the data can teach it.
bool corrects_weights(const TuneOptions& options);
// Less than five minutes of time.
bool is_hurried(const TuneOptions& options);
// What layers of this scheme get. Such a search learns the rounding of int8_weights and int4_weights, and corrects the
// biases of very wide layers; in a hurry it corrects biases alone.
ImproveOptions improvers_of(const TuneOptions& options, Scheme scheme);

}  // namespace seqto::internal
