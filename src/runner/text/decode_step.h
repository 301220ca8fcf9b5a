// Room: runner/text. The step of a decoder behind a prompt: one token more, all others remembered.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/token_inputs.h"
#include "seqto/model.h"

namespace seqto::internal {

// "0.key" of "past_key_values.0.key", "present.0.key" and "present_key_values.0.key"; empty: none of them.
std::string_view memory_of(std::string_view name);

struct DecodeStep {
  std::vector<std::optional<TokenRole>> roles;      // of the model's inputs; none: one number, which stays
  std::vector<std::pair<size_t, size_t>> memories;  // an input, and the output that it is next
};

// Inputs past_* are what outputs present* give, by the rest of their names: past_key_values.0.key is present.0.key.
// Nothing where the model has none.
std::optional<DecodeStep> find_decode_step(std::span<const std::string> inputs, std::span<const std::string> outputs);

// The inputs of the step behind a prompt's: the likeliest token of its last position, or 0 where the first output does
// not tell. Both spans are in the session's order. Nothing where an output does not fit the input that it is next, or
// an input of no role is more than one number.
std::optional<std::vector<Tensor>> next_inputs(const DecodeStep& step, std::span<const Tensor> inputs,
                                               std::span<const Tensor> outputs);

}  // namespace seqto::internal
