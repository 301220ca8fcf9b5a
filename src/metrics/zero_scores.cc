#include "metrics/zero_scores.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace seqto::internal {

std::string note_on_zero_scores(const Measurement& of_float) {
  std::vector<std::string> names;
  for (const auto& [name, value] : of_float.metrics)
    if (value == 0 && !of_float.lower_is_better.contains(name)) names.push_back(name);
  if (names.empty()) return {};
  return fmt::format(
      "the float model scores 0 in {}, so a drop of 0 says nothing; check the labels, the number that "
      "each class has, and the preprocessing",
      fmt::join(names, ", "));
}

}  // namespace seqto::internal
