// Room: orchestrator/tune. What makes a study's candidates more accurate, found once and kept in its folder.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "orchestrator/tune/workbench.h"
#include "seqto/improve.h"

namespace seqto::internal {

struct Improvements {
  Ranges ranges;
  SchemeCorrections corrections;
};

// For the schemes to choose from, each with its own fields: static or dynamic layers as `improvers` say, layers whose
// weights alone are quantized as improvers_of says. Refined ranges are the quantized scheme's, and all others' that
// name no method. `named`: ranges by such methods. A resumed study takes them from corrections.npz in its folder and
// from its note; what one left out for want of time stays so.
Improvements find_improvements(const Workbench& bench, const Ranges& ranges,
                               const std::map<std::string, Ranges>& named);
// For one scheme of which weights alone are quantized, ahead of that and of any ranges. They are in corrections.npz
// from then on, with a note: find_improvements goes on from them, whatever time there is by then.
SchemeCorrections find_first_corrections(const Workbench& bench, const DetailedScheme& scheme);

// Where the time lasts for few candidates, these come before improvers that nobody asked for.
bool leaves_unimproved(const TuneOptions& options, const Study& study);
// Whether a search improves weight-only layers by itself: it was told nothing else, and the data can teach it.
bool corrects_weights(const TuneOptions& options);
// Under a limit of less than five minutes, of which learning the codes of one scheme takes more than a twentieth.
bool hurries_learning(const TuneOptions& options, const Model& model);
// Whose roundings are learned.
int64_t schemes_that_learn(const TuneOptions& options, const Model& model);
// What layers of this scheme get. Such a search learns the rounding of int8_weights and int4_weights, and corrects the
// biases of very wide layers; in a hurry it corrects biases alone.
ImproveOptions improvers_of(const TuneOptions& options, const Model& model, Scheme scheme);

}  // namespace seqto::internal
