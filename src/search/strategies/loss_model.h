// What plans are expected to lose: losses of one choice at a time, corrected by what mixed plans turned out to lose.
//
// What weights lose adds up, the better the nearer two plans are. What a tensor loses in 8 bits is lost once, whether
// one or all of the groups that write and read it are static; one choice at a time it is seen at each of them.
#pragma once

#include "search/strategies/archive.h"

namespace seqto::internal {

// Of the scheme's uniform plan on the search samples; 0 where it was not measured or failed.
double uniform_loss(const Archive& archive, const Assignments& assignments, const DetailedScheme& scheme);

// Differences of loss below this are not worth a move: a ten-thousandth of what the worst uniform plan loses on the
// search samples.
double negligible_loss(const Archive& archive, const Assignments& assignments);

// What the mildest uniform plan, float16 aside, loses on the search samples; infinity where none was measured.
double mildest_loss(const Archive& archive, const Assignments& assignments);

class LossModel {
 public:
  // Of losses on the search samples where one choice alone differs from float32, measured or shared out: a scheme whose
  // uniform plan loses next to nothing is not measured group by group. What static groups lose beyond their weights is
  // spread over the tensors that they share and what is within them (Richardson and Lucy's iteration, never below 0).
  LossModel(const Archive& archive, Assignments& assignments);

  // Scaled for each scheme to its uniform plan, static ones aside (their weights are learned together and make up for
  // each other's errors, in mixed plans less so), then fitted to all mixed plans with a loss on the search samples:
  // ridge regression of relative residuals (a plan that loses twice as much may be off by twice as much), towards what
  // it was with half its size as the standard deviation. Never below a tenth of that.
  void fit(const Archive& archive);

  double loss_of(const Assignment& assignment) const;
  // What the step changes of it.
  double change(const Assignment& assignment, const Step& step) const;
  // Whether no tensor is shared.
  bool adds_up() const { return shared_.empty(); }
  // By group and choice, shared tensors divided by those who share them; zero for float32.
  ChoiceTable by_choice() const;

  const SearchTuning& tuning() const { return tuning_; }

 private:
  struct Shared {
    std::vector<size_t> groups;
    double loss = 0;
  };
  bool is_static(size_t group, int choice) const { return static_[group][static_cast<size_t>(choice)]; }
  bool is_lost(const Shared& tensor, const Assignment& assignment) const;
  void spread_static();
  void scale_to_uniform(const Archive& archive);

  Assignments& assignments_;
  const SearchTuning& tuning_;
  ChoiceTable own_;
  std::vector<std::vector<bool>> static_;  // by group and choice: in 8 bits
  std::vector<Shared> shared_;
  std::vector<std::vector<size_t>> shared_by_;  // of each group, places in shared_
};

}  // namespace seqto::internal
