// Room: metrics/loss. Scores of classes as probabilities.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

namespace seqto {

// Of a row that is not empty; NaN where it holds one.
std::vector<double> softmax(std::span<const float> row);

// The first `classes` of what is left of a sample's scores, or all that are left. `scores` is what is left then.
inline std::span<const float> take_scores(std::span<const float>& scores, size_t classes) {
  const auto taken = scores.first(std::min(classes, scores.size()));
  scores = scores.subspan(taken.size());
  return taken;
}

// Whether rows are shares already: none negative, the sum 1 up to a thousandth. False for single values.
bool are_shares(std::span<const float> row);

}  // namespace seqto
