// Room: orchestrator. The main job: model and data in, a folder with the front out.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "seqto/comparison.h"
#include "seqto/groups.h"
#include "seqto/improvers.h"
#include "seqto/report.h"
#include "seqto/task_metrics.h"

namespace seqto {

struct TuneOptions {
  // --- input
  std::filesystem::path model;
  std::filesystem::path data;
  // Samples of their own for the ranges and for the error analysis; empty: those of `data` that come first. With the
  // former all of `data` is the evaluation's; dataset.labels, samples and random_samples are those of `data` alone.
  std::filesystem::path calibration_data, ranking_data;
  DatasetOptions dataset;
  // --- search
  std::string strategy = "chain";
  // To choose from; float32 is always one. Empty: those that are worth it for the strategy and its objectives.
  std::vector<std::string> schemes;
  std::vector<std::string> objectives;  // empty: kl, size and latency; kl and size for incremental
  // Choose the selected point of the front, and whether there is one that will do; the search itself looks for the
  // front.
  std::vector<Limit> limits;
  // Beside those that labels bring by themselves.
  MetricOptions metrics;
  // Samples of the evaluation on which the selected point is audited (audit.h); what it found is a note. 0: none.
  int64_t audit_samples = 0;
  double threshold = 0;
  GroupOptions groups;               // layers to keep together, beside those that must be
  int64_t search_evaluations = 0;    // on search samples; 0: the strategy's own measure
  bool racing = true;                // candidates leave when a few search samples tell enough of them
  int64_t max_front = 24;            // plans of the search that are measured for the report
  int64_t max_evaluations = 0;       // trials of any kind; 0: no limit
  double max_time_seconds = 0;       // of the whole run; what it left out is among the notes; 0: no limit
  std::vector<std::string> exclude;  // globs on node names or "op:Conv": float in every candidate
  // --- samples, in the data set's order and never overlapping
  int64_t calibration_samples = 50;
  // Half of them to search on, half to confirm on; unset: 64, or a third of what calibration leaves if that is less;
  // none for strategy incremental, which decides on the evaluation's samples.
  std::optional<int64_t> search_samples;
  int64_t evaluation_samples = 0;  // 0: all that is left
  // Samples that go to a device behind a link in one message, and are repeated together when it breaks.
  int64_t chunk_samples = 1;
  int64_t ranking_samples = 10;  // of the calibration samples, for the error analysis
  // --- quantizer; the published settings
  QuantizeOptions quantize;
  // Strategies other than incremental write static layers in the types that are fast on the device, whatever `quantize`
  // says of types and granularity: on x86 uint8 activations and int8 weights, per channel, in 7 bits where the
  // processor lacks VNNI instructions.
  bool fast_types = true;
  CalibrateOptions calibrate;  // strategy incremental takes exact ranges whatever this says
  // Found once for each scheme, on the calibration samples with every layer in it, and applied to every candidate; the
  // published reference goes without. A resumed run takes them from the folder: corrections.npz, and the study's
  // ranges.
  ImproveOptions improvers;
  // Strategies other than incremental also learn the rounding of int8_weights and correct the biases of int4_weights,
  // and of layers too wide to learn, whatever `improvers` says; with max_time_seconds below 300 biases alone. Not with
  // random or recurrent data.
  bool correct_weights = true;
  // --- device
  // Every candidate is measured on each; the search follows the first. Losses are against the float model on the same
  // device. Ranges and error analysis come from the CPU.
  std::vector<std::string> devices{"cpu"};
  // With runner.isolated candidates run in a worker process, as the command line has it: one that crashes, hangs or
  // eats memory is a failed trial. Calibration and error analysis stay in this process.
  RunnerOptions runner;
  int jobs = 0;  // candidates that the search measures side by side; 0: as many as there are cores for
  // --- output
  std::filesystem::path output;
  bool resume = true;
};

// Writes study.jsonl, summary.json, report.html, plots/, models/, plans/ below options.output and returns the summary.
// Resumes a study of the same inputs. Throws Error as the verbs it calls; on cancel the study is left as it is
// after the last finished trial, with a report of it, and Error{kInterrupted} is thrown.
Summary tune(const TuneOptions& options, const Env& = {});

// Redraws everything from DIR/study.jsonl and DIR/plans, without any runtime.
Summary report(const std::filesystem::path& dir);

// What studies of one model, or of several, have found beside each other; write_comparison() draws it. Throws
// Error{kInvalidInput} where a folder holds no finished study, Error{kUsage} for fewer than two or one given twice.
Comparison compare_studies(const std::vector<std::filesystem::path>& dirs);

}  // namespace seqto
