#include "metrics/loss/other_shapes.h"

#include <fmt/format.h>

#include <algorithm>

namespace seqto::internal {
namespace {

int64_t other_shapes(const Measurement& measurement) {
  const auto found = measurement.samples.find(kOtherShape);
  return found == measurement.samples.end() ? 0 : std::ranges::count(found->second, 1.0);
}

}  // namespace

void count_other_shapes(Measurement& measurement, const Outputs& reference, const Outputs& outputs) {
  std::vector<double> others;
  for (int64_t i = 0; i < reference.rows; ++i) others.push_back(reference.row(i).size() != outputs.row(i).size());
  if (std::ranges::count(others, 1.0) > 0) measurement.samples[kOtherShape] = std::move(others);
}

std::string note_on_other_shapes(const Measurement& candidate) {
  const int64_t count = other_shapes(candidate);
  if (count == 0) return {};
  return fmt::format(
      "{} of {} samples are answered in another shape than the reference's, and count as wholly wrong: how long the "
      "output is depends on its values",
      count, candidate.samples.at(kOtherShape).size());
}

std::string note_on_other_shapes(std::span<const Trial> trials, const Trial* selected) {
  int64_t candidates = 0, others = 0;
  for (const Trial& t : trials) {
    if (t.part != Part::kEvaluation || t.id == "float" || !t.measurement) continue;
    ++candidates;
    others += other_shapes(*t.measurement) > 0;
  }
  if (others == 0) return {};
  const bool named = selected && selected->measurement && other_shapes(*selected->measurement) > 0;
  return fmt::format(
      "{} of {} candidates answer samples in another shape than float, and these count as wholly wrong: how long the "
      "output is depends on its values{}",
      others, candidates,
      named ? fmt::format("; the selected one does so for {} of {} samples", other_shapes(*selected->measurement),
                          selected->measurement->samples.at(kOtherShape).size())
            : "");
}

}  // namespace seqto::internal
