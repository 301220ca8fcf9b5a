#include "metrics/loss/top_classes.h"

#include <algorithm>
#include <cmath>

namespace seqto {

TopClasses top_classes(std::span<const float> scores, Ties ties) {
  const bool last = ties == Ties::kLast;
  const auto beats = [last](float later, float earlier) {
    if (std::isnan(later)) return last || !std::isnan(earlier);
    return !std::isnan(earlier) && (later > earlier || (last && later == earlier));
  };
  TopClasses top;
  for (size_t i = 0; i < scores.size(); ++i) {
    size_t place = top.count;
    while (place > 0 && beats(scores[i], scores[top.classes[place - 1]])) --place;
    if (place == top.classes.size()) continue;
    if (top.count < top.classes.size()) ++top.count;
    std::move_backward(top.classes.begin() + place, top.classes.begin() + top.count - 1,
                       top.classes.begin() + top.count);
    top.classes[place] = static_cast<int64_t>(i);
  }
  return top;
}

bool has_nan(std::span<const float> values) {
  return std::ranges::any_of(values, [](float value) { return std::isnan(value); });
}

}  // namespace seqto
