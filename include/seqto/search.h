// Room: search. Which plan to try next, and which of the tried ones are best.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "seqto/analyze.h"
#include "seqto/metrics.h"

namespace seqto {

// --- Pareto ------------------------------------------------------------------------------------

// Objectives are minimised. "size", "latency", or any field of Losses ("kl", "mse" ...), or a task metric's error
// ("top1" counts as 1 - top1). Throws Error{kUsage} listing the names when unknown.
double objective(const Measurement& measurement, const std::string& name);

using Point = std::vector<double>;
bool dominates(const Point& a, const Point& b);  // a <= b everywhere and < somewhere
// Indices of the non-dominated points, ascending; of equal points the first stays. Points with NaN are never in it.
std::vector<size_t> pareto_front(std::span<const Point> points);
// The k points (indices) nearest to the ideal point after each objective is scaled to 0..100 over the points
// given, as published; ties by index.
std::vector<size_t> nearest_to_ideal(std::span<const Point> points, size_t k);
// The volume dominated with respect to `reference` (any number of objectives up to 4).
double hypervolume(std::span<const Point> points, const Point& reference);

// --- strategies --------------------------------------------------------------------------------

struct Proposal {
  Plan plan;
  std::vector<std::string> excluded;
};

// Proposes plans one after the other; sees every trial of the study, so a resumed study goes on by itself.
class Strategy {
 public:
  virtual ~Strategy() = default;
  // Nothing: the search is over.
  virtual std::optional<Proposal> next(const Study& study) = 0;
};

struct StrategyOptions {
  // Stop when the last trial's loss `objective` is at most this; the published stop is rank_dissimilarity <= 0.
  double threshold = 0;
  std::string threshold_loss = "rank_dissimilarity";
};
struct SearchSpace {
  const Model* model = nullptr;
  std::vector<std::string> exclusion_order;  // see analyze.h
  std::vector<LayerId> layers;               // quantizable ones, graph order
};
// "incremental": the published procedure. Trial 0 is the fully quantized model, then the exclusion list grows by one
// entry of the order a trial; it stops at the threshold or when the list is used up. Candidates that are equal
// to the one before are the caller's to skip (see tune.h). Throws Error{kUsage} listing the names when unknown.
std::unique_ptr<Strategy> make_strategy(const std::string& name, const SearchSpace& space, const StrategyOptions& = {});

}  // namespace seqto
