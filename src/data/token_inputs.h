// Room: data. What the inputs of a model of tokens hold, by the names that exporters give them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "seqto/model.h"

namespace seqto::internal {

enum class TokenRole {
  kTokens,     // input_ids
  kOnes,       // attention_mask: what is there
  kZeros,      // token_type_ids: one text
  kPositions,  // position_ids: counted from 0
  kMemory,     // past_*: what was remembered of the tokens before
};
std::optional<TokenRole> role_of(std::string_view input);

// Whether the output of that name is what a memory holds next: "present.0.key".
bool gives_memory(std::string_view output);

// Whether the input is of its role's shape: [batch, tokens], of memory an open length besides the batch.
bool suits(const ValueInfo& input, TokenRole role);

// What such an input holds beside `tokens` where nothing came before; filled up with 0 to the input's fixed length.
// `input` suits the role.
Tensor token_input(const ValueInfo& input, TokenRole role, std::span<const int64_t> tokens);

}  // namespace seqto::internal
