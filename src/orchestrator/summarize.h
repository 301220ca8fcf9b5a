// Room: orchestrator. From a study to what the reports show.
#pragma once

#include "orchestrator/notes.h"
#include "seqto/report.h"

namespace seqto::internal {

// The fully quantized reference: trial "published" where the search used other settings, else "full".
const Trial* reference_trial(const Study& study);

// Positions in study.trials() of the non-dominated candidates, by size. The float model competes (a candidate that is
// larger and worse is no choice) but is not listed.
std::vector<size_t> front_of(const Study& study, const std::vector<std::string>& objectives);

// Files are named where they exist below `dir`.
Summary summarize(const Study& study, const std::filesystem::path& dir, const Ending& ending);

}  // namespace seqto::internal
