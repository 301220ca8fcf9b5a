#include "data/token_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "data/convert.h"

namespace seqto::internal {
namespace {

// Nothing is remembered: [1, heads, 0, size], or of keys and values in one [2, 1, heads, 0, size].
Tensor nothing(const ValueInfo& input) {
  std::vector<int64_t> dims;
  for (const Dimension& d : *input.shape) dims.push_back(std::max<int64_t>(0, d.value));
  if (const auto batch = batch_axis(input); batch && *batch < dims.size())
    dims[*batch] = std::max<int64_t>(1, dims[*batch]);
  return {input.type, dims, nullptr, {}};
}

}  // namespace

std::optional<TokenRole> role_of(std::string_view input) {
  if (input == "input_ids") return TokenRole::kTokens;
  if (input == "attention_mask") return TokenRole::kOnes;
  if (input == "token_type_ids") return TokenRole::kZeros;
  if (input == "position_ids" || input == "cache_position") return TokenRole::kPositions;
  if (input.starts_with("past")) return TokenRole::kMemory;
  return {};
}

std::string number_flag(const ValueInfo& input) {
  return fmt::format("--input {}={}", input.name, input.name == "num_logits_to_keep" ? "0, which keeps all" : "NUMBER");
}

bool reads_ids(std::span<const ValueInfo> inputs) {
  return std::ranges::any_of(
      inputs, [](const ValueInfo& input) { return input.type == DataType::kInt64 || input.type == DataType::kInt32; });
}

bool gives_memory(std::string_view output) { return output.starts_with("present"); }

bool suits(const ValueInfo& input, TokenRole role) {
  if (!input.shape) return false;
  if (role == TokenRole::kPositions && input.shape->size() == 1) return true;
  if (role != TokenRole::kMemory) return input.shape->size() == 2;
  return !input.shape->empty() &&
         std::ranges::any_of(std::span(*input.shape).subspan(1), [](const Dimension& d) { return d.value <= 0; });
}

std::optional<size_t> batch_axis(const ValueInfo& input) {
  if (!input.shape) return 0;
  if (input.shape->empty()) return {};
  const auto role = role_of(input.name);
  if (role == TokenRole::kPositions && input.shape->size() == 1) return {};
  return role == TokenRole::kMemory && input.shape->size() == 5 && input.shape->front().value > 0 ? 1 : 0;
}

std::optional<int64_t> remembered(const ValueInfo& input, std::span<const int64_t> dims) {
  const bool other = input.name.find("encoder") != std::string::npos || input.name.find("cross") != std::string::npos;
  if (role_of(input.name) != TokenRole::kMemory || !input.shape || input.shape->size() != dims.size() || other)
    return {};
  if (dims.size() >= 4) return dims[dims.size() - 2];
  for (size_t axis = 1; axis < dims.size(); ++axis)
    if ((*input.shape)[axis].value <= 0) return dims[axis];
  return {};
}

Tensor token_input(const ValueInfo& input, TokenRole role, std::span<const int64_t> tokens, int64_t before) {
  if (role == TokenRole::kMemory) return nothing(input);
  const int64_t known = std::ssize(tokens) + (role == TokenRole::kOnes ? before : 0);
  std::vector<int64_t> values(static_cast<size_t>(std::max(input.shape->back().value, known)));
  for (int64_t i = 0; i < known; ++i) {
    int64_t& value = values[static_cast<size_t>(i)];
    if (role == TokenRole::kTokens) value = tokens[static_cast<size_t>(i)];
    if (role == TokenRole::kOnes) value = 1;
    if (role == TokenRole::kPositions) value = before + i;
  }
  return token_row(std::move(values), input.shape->size(), input.type, input.name);
}

Tensor token_row(std::vector<int64_t> values, size_t axes, DataType type, const std::string& what) {
  std::vector<int64_t> dims{std::ssize(values)};
  if (axes > 1) dims.insert(dims.begin(), 1);
  return convert(int64_tensor(dims, std::move(values)), type, what);
}

std::vector<char> counted_by(const Tensor& mask) {
  if (mask.dims().size() != 2 || mask.dims()[0] != 1) return {};
  bool is_added = mask.type() != DataType::kInt64 && mask.type() != DataType::kInt32 && mask.type() != DataType::kBool;
  std::vector<char> counted;
  for (int64_t i = 0; i < mask.element_count(); ++i) {
    counted.push_back(element(mask, i) != 0);
    is_added &= !(element(mask, i) > 0);
  }
  return is_added ? std::vector<char>() : counted;
}

std::vector<int64_t> positions_of(std::span<const char> counted, int64_t tokens) {
  std::vector<int64_t> positions;
  int64_t next = 0;
  for (const char c : counted) positions.push_back(c ? next++ : 1);
  positions.erase(positions.begin(), positions.end() - std::min<int64_t>(tokens, std::ssize(positions)));
  return positions;
}

}  // namespace seqto::internal
