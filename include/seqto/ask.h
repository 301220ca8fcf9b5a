// Room: orchestrator. One study on many machines: who asks and tells keeps it, who measures only reads it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "seqto/tune.h"

namespace seqto {

// What came of a proposal.
struct Result {
  int64_t number = -1;         // of the proposal
  std::optional<Trial> trial;  // absent: nothing was measured
  std::string error;           // why
  std::string study;           // that it was measured in, by a hash; empty: not told
};
std::string result_to_json(const Result& result);  // one line
Result result_from_json(const std::string& text);  // throws Error{kInvalidInput}

// The proposals of the present step on search and acceptance samples that nobody has told the results of, by number.
// None: the search is over, and tune() measures the front. Between steps, and at first, the caller's machine does what
// only one can do: references, calibration, improvements, predicted latencies, and the plans that the report has from
// the start. Opens model and data first: the study in options.output has to be of these options.
// Throws Error{kUsage} for a time limit, which is one run's, and for strategy incremental, which measures for the
// report alone; else as tune().
std::vector<Proposal> ask(const TuneOptions& options, const Env& env = {});
// Those of a study's folder, at no cost: nothing but the folder is opened. None where the step is done, or none begun.
std::vector<Proposal> asked(const std::filesystem::path& dir, const Env& env = {});

// Takes results into the study of `dir`, each in its turn; those that come earlier wait in the folder. Any number of
// processes may tell at a time. Telling a result again changes nothing. Returns how many of the step are missing.
// What can be taken is taken, before it throws the first Error: kInvalidInput for what nobody asked for, kUnavailable
// for a result that is an error.
int64_t tell(const std::filesystem::path& dir, std::span<const Result> results, const Env& env = {});

// Measures proposals of the study in options.output, which may be a copy, or read-only. Nothing is written there.
class Evaluator {
 public:
  // Opens model, data and the first device, and runs the float model on search and acceptance samples. Throws
  // Error{kInvalidInput} where the folder has no study that has got as far as its search, or one of something else.
  explicit Evaluator(const TuneOptions& options, const Env& env = {});
  ~Evaluator();
  Evaluator(Evaluator&&) noexcept;

  // A candidate that fails is a trial that says so. Throws Error{kUnavailable} where the device is gone,
  // Error{kInvalidInput} for a proposal on the samples of the report.
  Trial evaluate(const Proposal& proposal);
  // Of a line that `seqto ask` prints. What is thrown is the result's error: it says nothing of the next line.
  Result answer(const std::string& proposal);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace seqto
