// Room: orchestrator/tune. What a study that is over learns of its files: latencies of the finalists in turn, the
// audit.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "orchestrator/study/notes.h"
#include "orchestrator/tune/evaluate.h"
#include "orchestrator/tune/time_limit.h"

namespace seqto::internal {

// On each device its finalists' files below `folder`/models: all are loaded, then 30 rounds after one to warm up run
// each once on the same sample. `searched`: finalists are the front, or where latency is an objective all points that
// were measured for the report, and the published model; else, as published, the top three. What fails leaves the
// trials' latencies and a note. Rounds end early once the time is over.
void time_finalists(const Study& study, std::span<const Place> places, const std::filesystem::path& folder,
                    bool searched, Ending& ending, const TimeLimit& time, const Env& env);

// In words: whether the selected point, on the first `samples` of the evaluation, is the same on processors whose int8
// products saturate. `runner`: of this process.
std::string audit_selected(const Study& study, const Place& place, const std::filesystem::path& folder,
                           const Ending& ending, int64_t samples, Runner& runner, const Env& env);

}  // namespace seqto::internal
