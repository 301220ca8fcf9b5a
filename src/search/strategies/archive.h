// What a study knows of the plans of a search space.
#pragma once

#include <cmath>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "search/strategies/assignments.h"
#include "search/strategies/race.h"

namespace seqto::internal {

struct Entry {
  Assignment assignment;
  std::string step;  // of its first trial
  // By Part; absent: not measured there. Infinite where the candidate failed. What left a race has an estimate of the
  // mean over all samples of the part.
  std::optional<double> search, acceptance, evaluation;
  std::map<Part, double> means;  // as the samples of search and acceptance have it: those above may be steady_loss()
  // The task metric that is an objective: on the acceptance samples, or on those of the search where it is measured
  // there.
  std::optional<double> metric;
  double size = 0, latency = 0;  // the latency is predicted; 0 where it is no objective

  // On search and acceptance samples together, which are equally many.
  double joint_loss() const { return acceptance ? (*search + *acceptance) / 2 : *search; }
  bool confirmed() const { return search && acceptance; }
  const std::optional<double>& on(Part part) const {
    return part == Part::kSearch ? search : part == Part::kAcceptance ? acceptance : evaluation;
  }
};

class Archive {
 public:
  Archive(const SearchSpace& space, const StrategyOptions& options);

  // Reads the trials that are new since the last call.
  void update(const Study& study);

  const std::vector<Entry>& entries() const { return entries_; }
  const Entry* find(const Assignment& assignment) const;
  // The choices of the plan; nothing for one that is not of the space.
  std::optional<Assignment> read(const Plan& plan) const;
  bool measured(const Assignment& assignment, Part part) const {
    const Entry* entry = find(assignment);
    return entry && entry->on(part);
  }
  // Trials on search and acceptance samples.
  int64_t evaluations() const { return evaluations_; }

  // What is minimised: the entry's size, its latency, or both; and the loss.
  Point point(const Entry& entry, double loss) const;
  // Whether objectives of the search have bounds, and whether these costs are within `share` of them.
  bool bounded() const { return std::isfinite(max_size_) || std::isfinite(max_latency_); }
  bool is_within(double size, double latency, double share = 1) const {
    return size <= share * max_size_ && latency <= share * max_latency_;
  }
  const SearchTuning& tuning() const { return tuning_; }
  // Shares of the bytes in what plans cost; the rest is time.
  std::vector<double> mixtures() const;
  const std::string& loss() const { return loss_; }
  bool by_size() const { return by_size_; }
  bool by_latency() const { return by_latency_; }

  // Entries that no other dominates, by joint loss and costs: of the confirmed ones, or of all while there are none.
  // By the loss on the search samples alone, confirmed or not. And by the task metric, of the same as front(); empty
  // without one.
  std::vector<const Entry*> front() const;
  std::vector<const Entry*> search_front() const;
  std::vector<const Entry*> metric_front() const;

  // Candidates, all for one part, leave its samples (race.h) once what the front has now beats them, or most of what
  // they lose has been seen. All are run to the end by losses other than KL, and where a task metric is asked of
  // them. False while nothing was run on all samples of the part: then nothing can be told from a few.
  bool race(std::span<Proposal> proposals) const;

 private:
  auto competing() const;  // whether an entry is of the front's candidates
  template <class Has, class LossOf>
  std::vector<const Entry*> front_by(Has has, LossOf loss_of) const;

  // The samples come in the order of what KL costs there; losses that are 0 or 1 would need most of them.
  bool races() const { return loss_ == "kl"; }
  double mean_of(const Trial& trial, double loss, int64_t all);

  const SearchSpace& space_;
  const SearchTuning tuning_;
  std::string loss_;
  std::string metric_;  // empty: no task metric is an objective
  bool by_latency_, by_size_;
  bool steady_, knows_steady_ = false;  // whether plans are ranked by steady_loss(), as the first trial tells
  double max_size_, max_latency_;
  size_t seen_ = 0;
  int64_t evaluations_ = 0;
  std::map<Part, Difficulty> difficulty_;
  std::vector<Entry> entries_;
  std::map<Assignment, size_t> places_;  // of the entries
};

}  // namespace seqto::internal
