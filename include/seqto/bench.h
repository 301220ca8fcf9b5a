// Room: metrics. Models side by side: latency, throughput, memory, size, load time, and who is faster.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "seqto/dataset.h"
#include "seqto/metrics.h"
#include "seqto/runner.h"
#include "seqto/statistics.h"

namespace seqto {

// A launch starts a fresh worker process for each model. A round lets each of them run in turn: one run to warm the
// caches, then `repeats` that count. The order changes from round to round.
struct BenchOptions {
  // Where a process's memory happens to lie moves latencies by some percent; launches average that.
  int launches = 5;
  int rounds = 10;  // of each launch
  int repeats = 3;
  double max_time_seconds = 60;  // then rounds end early, at the soonest after two of each launch; 0: no limit
  double margin = 0.01;          // differences below this share are none
  std::string device = "cpu";
  RunnerOptions runner;
  DatasetOptions dataset;  // that the data were opened with: it names recurrent states
};

struct BenchInput {
  std::string path;
  const Dataset* data = nullptr;  // as the model's inputs want it; a round takes the next sample
};

struct BenchedModel {
  std::string path;
  int64_t size_bytes = 0;         // of the file and of the files that hold its weights
  std::string form;               // QuantizedForm::form
  std::vector<int64_t> load_ns;   // of each launch; the file is in the system's cache
  std::vector<int64_t> first_ns;  // the first run of each launch
  std::vector<int64_t> runs_ns;   // all that count, in order
  int64_t load_median_ns = 0, first_median_ns = 0;
  int64_t p50_ns = 0, p90_ns = 0, p99_ns = 0;
  double runs_per_second = 0;  // one after the other: 1 / the mean
  // Of the worker, the largest of all launches; 0 where it is not known. `idle_bytes`: before the model was loaded.
  int64_t peak_bytes = 0, idle_bytes = 0;
  std::vector<NodePlacement> nodes;  // of the graph that the runtime made of it, with times
};

// A model against the first. Intervals are of 95 %: bootstrap of the paired rounds, first of the launches, then of the
// rounds in each.
struct BenchComparison {
  double ratio = 1;  // its time / the first's
  Interval ratio_interval;
  double difference_ns = 0;  // its time - the first's
  Interval difference_interval;
  Speed speed = Speed::kSame;
  bool same_size = false;        // within 1 %
  std::vector<std::string> why;  // where it is not faster or not smaller: what its graph shows, one sentence each
};

struct BenchResult {
  std::string runner;  // description
  bool random_inputs = false;
  int launches = 0, rounds = 0;  // that were done; rounds of all launches together
  std::string cut_short;         // why they are fewer than asked for; empty: they are not
  std::vector<BenchedModel> models;
  std::vector<BenchComparison> comparisons;  // of the second model and those after it
};

// Throws Error as make_runner(), Runner::load_file() and Session::run() do, with the path of the model.
BenchResult bench(std::span<const BenchInput> models, const BenchOptions& options, const Env& env = {});

// Of a model's file and of the files that hold its weights.
int64_t model_file_bytes(const std::filesystem::path& path, const Model& model);

// --- its parts

// The ratio and the difference of paired times, a list for each launch, of the medians of rounds.
using RoundTimes = std::vector<std::vector<double>>;  // ns
BenchComparison compare_times(const RoundTimes& first, const RoundTimes& other, double margin);

// Why `other` is not faster or smaller than `first`, from both files and the graphs that the runtime made of them.
std::vector<std::string> reasons(const BenchedModel& first, const BenchedModel& other, const BenchComparison& found);

}  // namespace seqto
