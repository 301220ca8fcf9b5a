// Room: orchestrator. Results of the published tool, https://github.com/luludak/SeQTO, drawn as studies are.
#pragma once

#include <filesystem>
#include <vector>

#include "seqto/overview.h"

namespace seqto {

// The published tool's *_out.json files: `path` itself, or those in the folder; empty where there are none.
std::vector<std::filesystem::path> published_results(const std::filesystem::path& path);

// Reads one of them, finds the front of dissimilarity and size, and writes summary.json, report.html and plots/ below
// `dir`. Losses that the file does not hold are absent (NaN in the Summary). Throws Error{kInvalidInput} naming the
// key.
Summary report_published(const std::filesystem::path& file, const std::filesystem::path& dir);

}  // namespace seqto
