// Room: orchestrator/tune. What a study that is over learns of its files: latencies of the finalists in turn, the
// audit, in which words the selected one goes on.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "orchestrator/tune/evaluate.h"
#include "orchestrator/tune/open_study.h"

namespace seqto::internal {

// On each device its finalists' files in the study's folder: all are loaded, then 30 rounds after one to warm up run
// each once on the same sample. Finalists are the front, or where latency is an objective all points that were measured
// for the report, and the published model; of the published procedure the top three. What fails leaves the trials'
// latencies and a note. Rounds end early once the time is over.
void time_finalists(const Inputs& inputs, OpenStudy& study, std::span<const Place> places, const TimeBudget& time);

// Of an encoder and its decoder: these decoders with a cache, the float one first, in turn on one step. Empty where the
// time is over. Throws what the runner throws.
std::vector<Latency> time_steps(std::span<const Model> decoders, const std::vector<Tensor>& step, const Place& place,
                                const TimeBudget& time, const Env& env);

// In words: whether the selected point, on the first samples of the evaluation, is the same on processors whose int8
// products saturate.
// Of options.audit_samples; for a target whose sums have fewer than 32 bits some in any case, but of recurrent models.
int64_t audited_samples(const Inputs& inputs);
std::string audit_selected(const Inputs& inputs, const OpenStudy& study, const Place& place, const Env& env);

// In words: where the runtime's optimizations change what the selected point computes on the first of the evaluation's
// samples; empty: nowhere.
constexpr int kVerifiedSamples = 8;
std::string fault_of_selected(const Inputs& inputs, const OpenStudy& study, const Place& place);

// In words: how many words or characters of what was said the float model and the selected one write wrongly. Of an
// encoder and its decoder, by Inputs::text_errors.
std::vector<std::string> text_errors(const Inputs& inputs, const OpenStudy& study, const Place& place);

// Whether the data set names a tokenizer, the model foretells tokens, and `place` knows what float answered.
bool shows_tokens(const Inputs& inputs, const OpenStudy& study, const Place& place);
// Of the selected point's file, on the evaluation's samples; of a study that shows tokens. Nothing where the outputs
// are no row of scores for each token.
std::optional<ChangedTokens> changed_tokens(const Inputs& inputs, const OpenStudy& study, const Place& place);

}  // namespace seqto::internal
