// Recipes: what the public Preprocess says, as JSON and as tables of values.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "seqto/dataset.h"

namespace seqto::internal {

// The form of a file, with every field of one, on one line.
std::string preprocess_to_json(const Preprocess& recipe);

// For each channel of the tensor the value of each pixel 0..255, as float32 arithmetic gives it step by step.
std::array<std::vector<float>, 3> value_tables(const Preprocess& recipe);

}  // namespace seqto::internal
