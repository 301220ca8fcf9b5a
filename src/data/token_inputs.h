// Room: data. What the inputs of a model of tokens hold, by the names that exporters give them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "seqto/model.h"

namespace seqto::internal {

enum class TokenRole {
  kTokens,     // input_ids
  kOnes,       // attention_mask: what is there, the remembered tokens included
  kZeros,      // token_type_ids: one text
  kPositions,  // position_ids, cache_position: counted from 0 at the first remembered token
  kMemory,     // past_*: what was remembered of the tokens before
};
std::optional<TokenRole> role_of(std::string_view input);

// The flag that gives an input of one number.
std::string number_flag(const ValueInfo& input);

// Whether one of them takes whole numbers, as token ids are.
bool reads_ids(std::span<const ValueInfo> inputs);

// Whether the output of that name is what a memory holds next: "present.0.key".
bool gives_memory(std::string_view output);

// Whether the input is of its role's shape: [batch, tokens], of positions also [tokens], of memory an open length
// besides the batch.
bool suits(const ValueInfo& input, TokenRole role);

// The axis of its batch: the first, but of keys and values in one, [2, batch, heads, past, size], the second. Nothing
// where there is none, as of one number, or of positions of one axis.
std::optional<size_t> batch_axis(const ValueInfo& input);

// The tokens that an input of memory, of these dims, remembers: [..., heads, tokens, size], or where it has fewer axes
// the first open one behind the batch. Nothing where the name tells of an encoder, whose tokens are others.
std::optional<int64_t> remembered(const ValueInfo& input, std::span<const int64_t> dims);

// What such an input holds beside `tokens` where `before` came before them, none of which an input of memory holds;
// filled up with 0 to the input's fixed length. `input` suits the role.
Tensor token_input(const ValueInfo& input, TokenRole role, std::span<const int64_t> tokens, int64_t before = 0);
// [1, values], or [values] of an input of one axis. `what` begins the words of an error.
Tensor token_row(std::vector<int64_t> values, size_t axes, DataType type, const std::string& what);

// Which positions a mask of one sequence, [1, positions], counts. Empty where it is none: one of more axes, or one that
// is added to scores, where 0 is seen.
std::vector<char> counted_by(const Tensor& mask);

// position_ids of the last `tokens` behind a mask of all, as transformers makes them: what is hidden is not counted,
// and is 1.
std::vector<int64_t> positions_of(std::span<const char> counted, int64_t tokens);

}  // namespace seqto::internal
