#include "data/token_inputs.h"

#include <algorithm>
#include <vector>

#include "data/convert.h"

namespace seqto::internal {
namespace {

// Nothing is remembered: [1, heads, 0, size].
Tensor nothing(const ValueInfo& input) {
  std::vector<int64_t> dims;
  for (const Dimension& d : *input.shape) dims.push_back(dims.empty() ? 1 : std::max<int64_t>(0, d.value));
  return {input.type, dims, nullptr, {}};
}

}  // namespace

std::optional<TokenRole> role_of(std::string_view input) {
  if (input == "input_ids") return TokenRole::kTokens;
  if (input == "attention_mask") return TokenRole::kOnes;
  if (input == "token_type_ids") return TokenRole::kZeros;
  if (input == "position_ids") return TokenRole::kPositions;
  if (input.starts_with("past")) return TokenRole::kMemory;
  return {};
}

bool gives_memory(std::string_view output) { return output.starts_with("present"); }

bool suits(const ValueInfo& input, TokenRole role) {
  if (!input.shape) return false;
  if (role != TokenRole::kMemory) return input.shape->size() == 2;
  return !input.shape->empty() &&
         std::ranges::any_of(std::span(*input.shape).subspan(1), [](const Dimension& d) { return d.value <= 0; });
}

Tensor token_input(const ValueInfo& input, TokenRole role, std::span<const int64_t> tokens) {
  if (role == TokenRole::kMemory) return nothing(input);
  const int64_t length = std::max((*input.shape)[1].value, std::ssize(tokens));
  std::vector<int64_t> values(static_cast<size_t>(length));
  for (size_t i = 0; i < tokens.size(); ++i)
    values[i] = role == TokenRole::kTokens      ? tokens[i]
                : role == TokenRole::kOnes      ? 1
                : role == TokenRole::kPositions ? static_cast<int64_t>(i)
                                                : 0;
  return convert(int64_tensor({1, length}, std::move(values)), input.type, input.name);
}

}  // namespace seqto::internal
