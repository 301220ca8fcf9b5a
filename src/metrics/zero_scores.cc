#include "metrics/zero_scores.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "metrics/task/task_metric_kinds.h"

namespace seqto::internal {

std::string note_on_zero_scores(const Measurement& of_float) {
  std::vector<std::string> names;
  for (const auto& [name, value] : of_float.metrics)
    if (value == 0 && !of_float.lower_is_better.contains(name)) names.push_back(name);
  if (names.empty()) return {};
  const bool of_boxes = std::ranges::any_of(names, is_average_precision);
  return fmt::format(
      "the float model scores 0 in {}, so nothing can drop; check the labels, the number that "
      "each class has, and the preprocessing{}",
      fmt::join(names, ", "),
      of_boxes ? "; --metric map50=FILE.json says how boxes are read where they are not middle and size, "
                 "{\"box\": \"xyxy\", ...} (docs/reference/metrics.md)"
               : "");
}

std::string note_on_silent_kl(std::span<const Trial> trials) {
  constexpr double kChanges = 1e-3;  // of the scores' own squares
  int64_t candidates = 0;
  double most = 0;
  for (const Trial& trial : trials) {
    if (trial.id == "float" || !trial.measurement) continue;
    if (trial.measurement->losses.kl != 0) return {};
    ++candidates;
    most = std::max(most, trial.measurement->losses.nmse);
  }
  if (most < kChanges) return {};
  return fmt::format(
      "kl is 0 for all {} candidates, and their nmse goes up to {:.3g}: the softmax of such large scores is one class "
      "alone, so kl tells no candidate from another; --objectives with nmse in place of kl does",
      candidates, most);
}

}  // namespace seqto::internal
