// Room: metrics. The gate: a model's figures against limits, and against those of an earlier run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "seqto/bench.h"
#include "seqto/metrics.h"
#include "seqto/validate.h"

namespace seqto {

// A candidate with all that a later run has to know to be compared with it.
struct Measured {
  std::string candidate;  // a path, or the id of a study's point
  std::string model_sha256, reference_sha256;
  std::string recipe_json;      // a study's options and the candidate's plan; empty for a pair of files
  bool random_inputs = false;   // then losses mean nothing
  std::string data;             // fingerprint of the data set
  int64_t samples = 0;          // of it that the figures are of; 0: not told
  std::string runner, machine;  // "onnxruntime 1.31.1 (cpu, 1 thread)"; processor
  std::string seqto;            // version
  std::string loss = "kl";      // that a limit of a loss without a name is of
  Figures figures;
  std::vector<std::string> notes{};  // on them, of a pair of files; in no lock
};

struct GateResult {
  Measured measured;
  std::vector<CheckedLimit> limits;
  std::vector<std::string> notes;
};
bool passed(const GateResult& result);  // every limit is met

// --- from a study
// The point `id` of DIR/summary.json, called as in files_in_study(); its files need not be there.
// `device`: one of the study's, empty: its first. "selected" is then that device's, and its figures are those that
// were measured there. Throws Error{kInvalidInput}: no study, no such device or point (with those that there are), a
// failed one.
Measured measured_in_study(const std::filesystem::path& dir, const std::string& id = "selected",
                           const std::string& device = "");

// The files of a point of DIR/summary.json; empty: not written. `called`: "selected", "fully_quantized", a name (1,
// 2, 3 ...), an id, or at least four digits that no other id begins with. Throws Error{kInvalidInput}: no such point,
// or several, with those that there are.
struct StudyFiles {
  std::filesystem::path model, plan;
};
StudyFiles files_in_study(const std::filesystem::path& dir, const std::string& called);

// --- from two files
// Losses, read as the task of `metrics` says (task.h), task metrics where the data have labels, `metrics` and the
// caller's `own`; sizes; intervals by bootstrap over the samples, of drops over the pairs. Throws Error{kInvalidInput}
// as validate(), and where the first output is not float.
Measured measure_pair(const ParitySide& reference, const ParitySide& candidate, const Env& env = {},
                      const MetricOptions& metrics = {}, const Metrics& own = {});
// Of one file, with nothing to compare it with: its size alone.
Measured measure_size(const std::string& path);
// Latencies of the candidate, the second model of a bench, and their ratio to the first's.
void add_latency(Measured& measured, const BenchResult& result);

// --- the lock file, docs/guide/ci.md
// Throws Error{kInvalidInput} where a figure is not finite.
std::string lock_to_json(const Measured& measured);
Measured lock_from_json(const std::string& text);  // throws Error{kInvalidInput}
void save_lock(const Measured& measured, const std::filesystem::path& file);
Measured load_lock(const std::filesystem::path& file);

// What is held against a later run.
struct LockComparison {
  std::vector<Limit> limits;       // the worse end of each locked figure's interval
  std::vector<std::string> notes;  // what changed since, and which figures are not compared for it
};
// Throws Error{kInvalidInput} where the figures were measured on other samples, or against another float model.
LockComparison compare_lock(const Measured& lock, const Measured& now, const std::string& lock_name);

}  // namespace seqto
