// Room: metrics/loss. Scores of classes as probabilities.
#pragma once

#include <span>
#include <vector>

namespace seqto {

// Of a row that is not empty; NaN where it holds one.
std::vector<double> softmax(std::span<const float> row);

// Whether rows are shares already: none negative, the sum 1 up to a thousandth. False for single values.
bool are_shares(std::span<const float> row);

}  // namespace seqto
