// Searches written as if plans could be measured at once. Each call of next() runs the search from its beginning over
// what the study holds, up to the first plans that nobody has measured; these are proposed. So a search keeps no state
// of its own and a resumed one goes on by itself.
#pragma once

#include <exception>
#include <set>

#include "search/strategies/archive.h"

namespace seqto::internal {

class Replay : public Strategy {
 public:
  Replay(const SearchSpace& space, const StrategyOptions& options);

  std::vector<Proposal> next(const Study& study, bool wrap_up) final;
  int64_t expected() const final { return budget() + options_.front; }

 protected:
  // The search; ends when it has measured what it wants to.
  virtual void search() = 0;
  // Whether plans that are not on the front need not be run on all samples.
  virtual bool races() const { return false; }

  // Refuses a limit of the caller's that is below what the search cannot do without.
  void require_limit(size_t least) const;
  // On the search samples; infinite for plans that fail. All of `plans` are measured side by side.
  std::vector<double> losses(std::span<const Assignment> plans);
  double loss(const Assignment& plan) { return losses(std::span(&plan, 1))[0]; }
  // What a plan costs: its size in bytes, or its predicted latency where size is no objective. Needs no run.
  double cost(const Assignment& plan);
  // Losses of one choice at a time, and what the choices save of the cost.
  ChoiceTable one_in();
  const ChoiceTable& saved() { return archive_.by_size() ? assignments_.bytes_saved() : assignments_.time_saved(); }

  // What the choices cost: bytes, or with latency among the objectives mixtures of bytes and time.
  std::vector<ChoiceTable> mixed_costs();

  // Of the bytes that can be saved, what a bound of the size asks for; 0 without one.
  double share_to_save() { return assignments_.share_to_save(options_.max_size_bytes); }

  // Measures as many plans of a path as the budget allows, both ends and evenly between them.
  void walk(const std::vector<Assignment>& path);

  int64_t budget() const;
  int64_t left() const { return budget() - used_; }

  const SearchSpace space_;
  const StrategyOptions options_;
  Assignments assignments_;

 private:
  struct Pending : std::exception {
    std::vector<Assignment> plans;
  };
  Archive archive_;
  int64_t used_ = 0;  // measurements that this run of the search asked for so far
  std::set<Assignment> asked_;
};

}  // namespace seqto::internal
