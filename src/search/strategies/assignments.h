// Plans as a search sees them: one choice for each group, what it costs, and what was measured of it.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "seqto/search.h"

namespace seqto::internal {

// An index into SearchGroup::choices for each group.
using Assignment = std::vector<int>;
// A value for each choice of each group.
using ChoiceTable = std::vector<std::vector<double>>;

class Assignments {
 public:
  explicit Assignments(const SearchSpace& space);

  size_t groups() const { return space_.groups.size(); }
  size_t choices(size_t group) const { return space_.groups[group].choices.size(); }
  const DetailedScheme& scheme(size_t group, int choice) const { return space_.groups[group].schemes[choice]; }

  Plan plan(const Assignment& assignment) const;
  Assignment all_float() const { return Assignment(groups(), 0); }
  // Every group that has it gets `scheme`; the others float32.
  Assignment uniform(const DetailedScheme& scheme) const;
  // The schemes that any group has beside float32, in the order of Scheme, those without fields first.
  std::vector<DetailedScheme> schemes() const;

  // The same by what their uniform plans save, most first.
  std::vector<DetailedScheme> schemes_by_bytes();

  // Bytes that each choice saves of the float file when it is the only one; negative where the file grows. Made on
  // first use.
  const ChoiceTable& bytes_saved();
  // Of all bytes that can be saved, the share that leaves a file of this size; 0 where it is larger than the float one.
  double share_to_save(double size_bytes);
  // Nanoseconds that each choice is predicted to save over float32, all other groups being as in the fastest of the
  // uniform plans: a layer alone would pay for conversions that it shares there. Made on first use.
  const ChoiceTable& time_saved();
  // What a choice costs: less than nothing where it saves. `share` of the bytes, the rest of the time, each relative to
  // the most that can be saved.
  ChoiceTable costs(double share);

 private:
  const SearchSpace& space_;
  std::optional<ChoiceTable> bytes_, time_;
};

// Sum over the groups of what the table says of their choices.
double total(const ChoiceTable& table, const Assignment& assignment);

}  // namespace seqto::internal
