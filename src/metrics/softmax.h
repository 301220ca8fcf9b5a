#pragma once

#include <span>
#include <vector>

namespace seqto {

// Of a row that is not empty; NaN where it holds one.
std::vector<double> softmax(std::span<const float> row);

}  // namespace seqto
