// Room: visualizer. What `validate`, `bench` and `check` found: as JSON, for a terminal, and as files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "seqto/validate.h"

namespace seqto {

// Throws Error{kUsage} where a report's name ends in none of .html, .md and .json: to be asked before long work.
void require_report_name(const std::filesystem::path& file);

// --- validate
std::string parity_to_json(const Parity& parity);
std::string parity_text(const Parity& parity);  // the terminal's
// "output 'y': max difference 0.11 at ...; at most 0.06 allowed"; empty where it passed.
std::vector<std::string> parity_failures(const Parity& parity);
// An .html page, .md or .json, by the file's ending; written whole or not at all.
void write_parity(const Parity& parity, const std::filesystem::path& file);

}  // namespace seqto
