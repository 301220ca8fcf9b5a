// Room: orchestrator/study. From a study to what the reports show.
#pragma once

#include "orchestrator/study/notes.h"
#include "seqto/report.h"

namespace seqto::internal {

// Positions of the non-dominated candidates, by size. The float model competes (a candidate that is larger and worse is
// no choice) but is not listed.
std::vector<size_t> front_of(const std::vector<Trial>& trials, const std::vector<std::string>& objectives);

// Whether points compete by latency or that of the next token.
bool counts_time(const std::vector<std::string>& objectives);

// Positions of the candidates whose files the report needs, on whichever device it shows them: the fronts of the
// trials; where latency is an objective and all points are timed again, after which the front may be another, all that
// were measured for the report. Without "full".
std::vector<size_t> reportable(const Study& study, const std::vector<std::string>& objectives, bool all_are_timed);

// What one device's trials come to, with the ending's latencies in place of their own; `float` and `full` are among
// them. Files are named where they exist below `dir`.
DeviceFront front_of_trials(const std::string& device, const std::vector<Trial>& trials, const Ending& ending,
                            const std::filesystem::path& dir);

// Files are named where they exist below `dir`.
Summary summarize(const Study& study, const std::filesystem::path& dir, const Ending& ending);

}  // namespace seqto::internal
