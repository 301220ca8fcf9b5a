// Room: metrics. The figures of a model by their names, and limits that they have to keep.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "seqto/metrics.h"

namespace seqto {

struct Figure {
  double value = 0;
  std::optional<Interval> interval;  // of 95 %, where one was taken
  bool higher_is_better = false;
};

// The end of its interval that is worse, or the value where it has none.
double worse_end(const Figure& figure, bool high_is_worse);

// "size_bytes", "size_ratio", "latency_ns", "latency_ratio", the losses ("kl" ...), task metrics ("top1" ...), and
// "top1_drop" ...: how much worse a metric is than the reference's. Ratios are to the reference, the float model.
using Figures = std::map<std::string, Figure>;
// Of a measurement; ratios and drops are to the float model's. What was not measured, or is not a number, is left out.
// Intervals are the measurement's, of drops those of the paired difference; of latencies the spread of the runs.
Figures figures_of(const Measurement& measurement, const Measurement& baseline);
// By its name alone: true for metrics that are shares of right answers.
bool higher_is_better(const std::string& figure);

struct Limit {
  std::string figure;  // of Figures, or kUnnamedLoss
  double bound = 0;
  bool at_most = true;   // else at least
  std::string asked_by;  // "--max-size", the lock file's name
};
// A loss whose name nobody gave: the one that the outputs call for (default_loss), or that a search went by.
inline constexpr char kUnnamedLoss[] = "loss";
// `limits` with `loss` for it.
std::vector<Limit> with_loss(std::span<const Limit> limits, const std::string& loss);
struct CheckedLimit {
  Limit limit;
  Figure found;
  bool met = false;
  double excess() const { return limit.at_most ? found.value - limit.bound : limit.bound - found.value; }
};

struct GateOptions {
  // A limit is met only where the whole interval of the figure is on its good side.
  bool confident = false;
};
// Each limit in turn, all of them named. Not a number meets no limit. Throws Error{kInvalidInput} naming the figures
// that there are where one was not measured.
std::vector<CheckedLimit> check(const Figures& figures, std::span<const Limit> limits, const GateOptions& = {});

}  // namespace seqto
