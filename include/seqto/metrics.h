// Room: metrics. Losses against the float model, task accuracy, latency; Measurement, Trial and Study.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "seqto/quantize.h"

namespace seqto {

// One row per sample: the model's first output, flattened.
struct Outputs {
  int64_t rows = 0, columns = 0;
  std::vector<float> values;  // rows x columns
  std::span<const float> row(int64_t i) const { return {values.data() + i * columns, static_cast<size_t>(columns)}; }
  void append(std::span<const float> row);
};

// Means over the samples; every one is 0 for equal outputs.
struct Losses {
  double kl = 0;                  // KL(softmax(float) || softmax(candidate)), nats
  double top1_disagreement = 0;   // share of samples whose first class differs
  double top5_disagreement = 0;   // share of samples whose sets of first five differ
  double rank_dissimilarity = 0;  // (1 - weightedtau of the two top-5 lists) / 2, as published
  double mse = 0;
  double cosine = 0;  // 1 - cosine similarity
};
Losses compare(const Outputs& reference, const Outputs& candidate);

// Task metrics from labels: top1, top5 (shares), f1 (macro). Samples with label -1 do not count; empty without labels.
std::map<std::string, double> task_metrics(const Outputs& outputs, std::span<const int64_t> labels);

// scipy.stats.weightedtau(x, y) with its defaults (rank=True, hyperbolic, additive); NaN for constant input.
double weighted_tau(std::span<const double> x, std::span<const double> y);

struct Latency {
  int64_t median_ns = 0, p10_ns = 0, p90_ns = 0;
};
Latency summarize_latency(std::vector<int64_t> sample_ns);

struct Measurement {
  int64_t size_bytes = 0;
  Latency latency;  // per sample
  Losses losses;
  std::map<std::string, double> metrics;
};

// What a candidate came to on one device.
struct Outcome {
  std::optional<Measurement> measurement;  // absent: failed
  std::string failure;                     // why
};

// One candidate, evaluated or failed.
struct Trial {
  std::string id;      // "float", "full" or the plan's hash
  int64_t number = 0;  // position in the study
  Plan plan;
  std::vector<std::string> excluded;  // what the strategy excluded, in its order
  // On the study's first device, which the search follows.
  std::optional<Measurement> measurement;    // absent: failed
  std::string failure;                       // why
  std::map<std::string, Outcome> elsewhere;  // on the others, by their names
};
std::string trial_to_json(const Trial& trial);  // one line
Trial trial_from_json(const std::string& line);

// Figures of a study that identify it: resumed only when they are equal.
struct StudyHeader {
  std::string model_path;  // not compared: a model may be moved
  std::string model_sha256;
  int64_t model_size_bytes = 0;
  std::string data_fingerprint;
  std::string options_json;      // everything that shapes the trials
  std::string environment_json;  // host, runtime, threads, version; not compared
  int64_t calibration_samples = 0, search_samples = 0, evaluation_samples = 0;
};

// An append-only JSON-lines file: first the header, then notes (sensitivity) and trials, each written whole and
// flushed before append() returns. A torn last line (the process was killed) is cut off on open.
class Study {
 public:
  // Opens DIR/study.jsonl, creating it with `header` when absent.
  // Throws Error{kInvalidInput} naming what differs when it is a study of something else, when DIR is not
  // writable, or when another Study, in this process or another, has the file open.
  static Study open(const std::filesystem::path& file, const StudyHeader& header);
  // Reads without the right to append; for reports.
  static Study read(const std::filesystem::path& file);

  Study(Study&&) noexcept;
  Study& operator=(Study&&) noexcept;
  ~Study();

  const StudyHeader& header() const { return header_; }
  const std::vector<Trial>& trials() const { return trials_; }
  const Trial* find(const std::string& id) const;  // the last of that id, or null; append() invalidates it
  void append(Trial trial);                        // numbers it
  // Values beside the trials, kept by name: ranges, sensitivity. The JSON text must be one line.
  void note(const std::string& name, const std::string& json);
  const std::string* noted(const std::string& name) const;

 private:
  StudyHeader header_;
  std::vector<Trial> trials_;
  std::map<std::string, std::string> notes_;
  class File;
  Study();
  size_t parse(std::string_view text, const std::string& name);  // returns the bytes of the whole lines

  std::unique_ptr<File> file_;  // locked and open for appending; null after read()
};

}  // namespace seqto
