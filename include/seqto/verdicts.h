// Room: visualizer. What `validate`, `bench` and `check` found: as JSON, for a terminal, and as files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "seqto/bench.h"
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

// --- bench
std::string bench_to_json(const BenchResult& result);
std::string bench_text(const BenchResult& result);  // the terminal's
// "slower than the original: 3.2 times its time (3.0 to 3.4)".
std::string bench_verdict(const BenchComparison& comparison);
void write_bench(const BenchResult& result, const std::filesystem::path& file);

}  // namespace seqto
