// Room: visualizer. What `validate`, `bench`, `check`, `run` and `audit` found: as text, as JSON and as files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "seqto/audit.h"
#include "seqto/bench.h"
#include "seqto/gate.h"
#include "seqto/table.h"
#include "seqto/validate.h"

namespace seqto {

// Throws Error{kUsage} where a report's name ends in none of .html, .md and .json: to be asked before long work.
void require_report_name(const std::filesystem::path& file);

// --- validate
std::string parity_to_json(const Parity& parity);
std::string parity_text(const Parity& parity, const TextStyle& style = {});
// "output 'y': max difference 0.11 at ...; at most 0.06 allowed"; empty where it passed.
std::vector<std::string> parity_failures(const Parity& parity);
// An .html page, .md or .json, by the file's ending; written whole or not at all.
void write_parity(const Parity& parity, const std::filesystem::path& file);

// --- bench
std::string bench_to_json(const BenchResult& result);
std::string bench_text(const BenchResult& result, const TextStyle& style = {});
// "slower than the original: 3.2 times its time (3.0 to 3.4)".
std::string bench_verdict(const BenchComparison& comparison);
void write_bench(const BenchResult& result, const std::filesystem::path& file);

// --- check
std::string gate_to_json(const GateResult& result);
std::string gate_text(const GateResult& result, const TextStyle& style = {});
// "size_bytes: 49.50 kB found; at most 40.00 kB allowed by --max-size; 9.50 kB too much", for each limit not met.
std::vector<std::string> gate_failures(const GateResult& result);
void write_gate(const GateResult& result, const std::filesystem::path& file);
void write_gate_markdown(const GateResult& result, const std::filesystem::path& file);
void write_gate_junit(const GateResult& result, const std::filesystem::path& file);  // a test case for each limit

// --- run --metric
std::string task_metrics_text(const Measurement& measurement);  // a line each

// --- audit
std::string audit_to_json(const Audit& audit);
std::string audit_text(const Audit& audit, const TextStyle& style = {});
void write_proposal(const Audit& audit, const std::filesystem::path& plan);

}  // namespace seqto
