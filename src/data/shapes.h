// Shapes of samples against shapes of model inputs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "seqto/error.h"
#include "seqto/model.h"

namespace seqto::internal {

std::string shape_text(std::span<const int64_t> dims);  // [3, 224, 224]
std::string shape_text(const ValueInfo& input);         // [N, 3, 224, 224]; "any shape"

// The dims under which a sample goes into the input: its own where they match, with a batch of 1 before them where the
// input has one dimension more. Nothing where neither matches. Symbolic dimensions match all.
std::optional<std::vector<int64_t>> match_shape(std::span<const int64_t> sample, const ValueInfo& input);

struct FixedBatch : Error {
  FixedBatch(const std::string& message, int64_t size) : Error(Code::kInvalidInput, message), batch(size) {}
  int64_t batch;
};

// Throws FixedBatch where the first dimension is fixed above 1 and the sample (of the input's rank or one less) would
// fit a batch of 1.
void check_batch(std::span<const int64_t> sample, const ValueInfo& input);

// The shape of one sample where nothing but the model tells: an open dimension that is a batch (the first, or of the
// same symbol as some input's first) is 1. Throws Error{kInvalidInput} naming the other open ones.
std::vector<int64_t> closed_shape(const ValueInfo& input, std::span<const ValueInfo> inputs);

}  // namespace seqto::internal
