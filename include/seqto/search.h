// Room: search. Which plan to try next, and which of the tried ones are best.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "seqto/explain.h"
#include "seqto/gate.h"
#include "seqto/metrics.h"

namespace seqto {

// --- Which plan to try next, and which of the tried ones are best

// --- Pareto ------------------------------------------------------------------------------------

// Objectives are minimised. "size", "latency", "decode_latency" (NaN where it was not measured), or any field of Losses
// ("kl", "mse" ...), or a task metric: an error ("mae") as it is, others as 1 - metric. Throws Error{kUsage} listing
// the names when unknown.
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

// --- limits ------------------------------------------------------------------------------------

struct Selection {
  size_t index = 0;                  // of the points
  std::vector<CheckedLimit> limits;  // of that point
};
// Of the points that meet all limits, the one nearest to the ideal, over all points, of the objectives that have none
// (of all, where each has one). With limits on size and latency that is what loses least within them. Where none
// meets them, the one whose figures are least beyond their bounds, relative to these and summed. Where latency is an
// objective, points that are slower than the baseline are passed over while there are others. Nothing for no points.
// Throws Error{kInvalidInput} for a limit on what was not measured.
std::optional<Selection> select(std::span<const Measurement> points, const Measurement& baseline,
                                const std::vector<std::string>& objectives, std::span<const Limit> limits);

// --- strategies --------------------------------------------------------------------------------

// What a candidate runs against. It leaves once the samples that it has seen say enough, so that the others need not be
// run.
struct Race {
  struct Rival {
    double size_bytes = 0, latency_ns = 0;  // the latency is predicted; 0 where it is no objective
    double loss = 0;                        // its mean over all samples
    bool operator==(const Rival&) const = default;
  };
  std::string loss;                // that counts: "kl"
  double least_samples = 0;        // that a candidate is judged by
  double share_seen = 0;           // of the difficulty after which the rest tells too little
  std::vector<double> difficulty;  // of each sample, in its order: what plans lose there as a rule, in no unit
  std::vector<Rival> rivals;
  double latency_ns = 0;  // of the candidate, as those of the rivals

  // Of the losses on the first samples, one by one, and the size of the candidate's file.
  bool is_over(std::span<const Losses> losses, int64_t size_bytes) const;
  bool operator==(const Race&) const = default;
};

// Plain data: whoever measures it needs nothing else of the strategy.
struct Proposal {
  Plan plan;
  std::vector<std::string> excluded;  // of strategies that walk an exclusion list
  Part part = Part::kEvaluation;      // of the samples to measure it on
  std::string step;                   // what it is for: "one-in", "chain", "swap" ...
  std::optional<Race> race;           // absent: all samples
  int64_t number = -1;                // of the trial that it will be; -1: nobody has asked for it yet
};
std::string proposal_to_json(const Proposal& proposal);  // one line
Proposal proposal_from_json(const std::string& text);    // throws Error{kInvalidInput}

// Proposes plans; sees every trial of the study and nothing else, so a resumed study goes on by itself.
class Strategy {
 public:
  virtual ~Strategy() = default;
  // Plans that can be measured in any order, or side by side; all of them are in the study before the next call.
  // Nothing: the search is over. `wrap_up`: a limit is near; only what the report needs of what was found so far.
  virtual std::vector<Proposal> next(const Study& study, bool wrap_up = false) = 0;
  // Trials it will have asked for in all, as far as can be told by now; 0: unknown.
  virtual int64_t expected() const { return 0; }
};

// What the steps of a search go by. Each has a row in bench/results/search_ablation.md, which tells what becomes of
// searches on networks that it was not set on when it is taken away; `./dev bench search --ablate` writes it.
struct SearchTuning {
  // --- How many plans are measured
  double moves = 6;     // for each group, after the one-in plans
  double batch = 8;     // plans that are measured before it is asked what to try next
  double mixtures = 5;  // of bytes and time that chains are made for, with latency
  // --- What is worth a look; shares of what the mildest uniform plan loses
  double harmless = 0.05;    // float16 that loses less everywhere is not measured group by group
  double chain_end = 0.003;  // of plans that are expected to lose less, only the cheapest
  double negligible = 1e-4;  // differences below this, of what the worst uniform plan loses, are none
  // --- Races
  double race_samples = 8;     // that a candidate is judged by at least
  double race_seen = 1.0 / 3;  // share of the difficulty after which the rest tells too little
  // --- Predicted latencies
  double timed_mixed = 20;       // plans of static and float layers that are timed before the search
  double latency_prior = 0.5;    // by how much a weight of the profile may be off
  double latency_group = 0.3;    // ... and that of a group in int8
  double latency_noise = 0.015;  // of a timing
};

struct StrategyOptions {
  SearchTuning tuning;
  // incremental: stop when the last trial's rank_dissimilarity is at most this, as published.
  double threshold = 0;
  // The others: what they minimise. A loss or a task metric, and "size" or "latency" or both; "decode_latency" does not
  // guide them, it counts on the front that is made of their trials. Where there is a task metric, plans are found by
  // followed_loss(), and those that the report has are chosen by both; acceptance trials have to hold the metric.
  std::vector<std::string> objectives{"kl", "size"};
  // On search and acceptance samples together; 0: the strategy's own measure (docs/design/search.md).
  int64_t evaluations = 0;
  // chain: how much is over of the time that the search had left when this was first asked. That is before the one-in
  // evaluations, which get a share of it. Empty: there is no limit.
  std::function<double()> time_spent;
  int64_t front = 24;  // points that are measured for the report, at most
  uint64_t seed = 0;
  // chain (without latency among the objectives) and random: candidates that a few of the samples tell enough of are
  // not run on the rest of them.
  bool racing = true;
  // chain and what is reported: where the plans lie that will do. Those within both bounds that lose least are looked
  // for first, and always reported. The latency as SearchSpace::latency_of predicts it. Infinite, or no objective: no
  // bound.
  double max_size_bytes = std::numeric_limits<double>::infinity();
  double max_latency_ns = std::numeric_limits<double>::infinity();
};

// Layers that get one scheme together.
struct SearchGroup {
  std::vector<LayerId> layers;
  // What there is to choose from; float32, an empty choice, is the first. A choice says what each layer gets.
  std::vector<Plan> choices;
  std::vector<DetailedScheme> schemes;  // the choices by name
};
struct SearchSpace {
  const Model* model = nullptr;
  std::vector<std::string> exclusion_order;  // see explain.h
  std::vector<LayerId> layers;               // quantizable ones, graph order
  Scheme scheme = Scheme::kInt8;             // of those of them that incremental does not exclude
  std::vector<SearchGroup> groups;
  std::function<int64_t(const Plan&)> size_of;    // bytes of the candidate's file; needs no run
  std::function<double(const Plan&)> latency_of;  // predicted, nanoseconds a sample; may be empty
  // `relative` for each of the plans; found once, for the plans that were asked for first.
  std::function<std::vector<LocalError>(std::span<const Plan>)> local_errors;
};
// "incremental": the published procedure. Trial 0 is the fully quantized model. Then the exclusion list grows by one
// entry of the order a trial, until the threshold or the end of the list. Candidates that are equal
// to the one before are the caller's to skip (see tune.h).
// "chain" (docs/design/search.md): one group and scheme at a time from the float side, then the chain of plans of least
// loss for their cost, then moves around it that fresh samples must confirm.
// Throws Error{kUsage} listing the names when unknown.
std::unique_ptr<Strategy> make_strategy(const std::string& name, const SearchSpace& space, const StrategyOptions& = {});
std::vector<std::string> strategy_names();

// An optimizer that is asked for plans and told what became of them.
class Proposer {
 public:
  virtual ~Proposer() = default;
  // Plans of the space, to be measured on the search samples, side by side. None: the search is over.
  virtual std::vector<Plan> ask() = 0;
  // What each of them came to, before the next ask() and in its order; those that a limit left out are not told.
  virtual void tell(const Trial& trial) = 0;
};
// The search that follows it, for at most options.evaluations plans; 0: until it asks for none. What is reported is
// chosen as the other strategies do. A plan is measured once: what the study holds is told at once. So a study that
// goes on asks from the beginning, and is that of one run if the proposer goes by its seed and by what it is told. It
// is also over after 1,000 times asking in a row that bring no new plan. Throws Error{kUsage} for a plan that is not of
// the space.
std::unique_ptr<Strategy> make_strategy(std::unique_ptr<Proposer> proposer, const SearchSpace& space,
                                        const StrategyOptions& = {});

// --- What a search learned of single groups: enough to try out plans without measuring them

struct WhatIf {
  // All relative to float32; losses, bytes and times are taken to add up over the groups.
  struct Choice {
    DetailedScheme scheme;
    double loss = 0;
    double bytes_saved = 0;
    double ns_saved = 0;  // 0 where latency was no objective
    Plan plan;            // of the group's layers, with the fields of what improves them
  };
  struct Group {
    std::vector<LayerId> layers;
    std::vector<Choice> choices;  // float32 first
  };
  std::string loss;                       // "kl"
  double size_bytes = 0, latency_ns = 0;  // of the float model; latency 0: not predicted
  std::vector<Group> groups;
};
// From the trials on search samples; `options` as the strategy had them. Expected losses are those that the next step
// of strategy chain would go by.
WhatIf what_if(const SearchSpace& space, const StrategyOptions& options, const Study& study);
std::string what_if_to_json(const WhatIf& what_if);  // one line
WhatIf what_if_from_json(const std::string& text);   // throws Error{kInvalidInput}

}  // namespace seqto
