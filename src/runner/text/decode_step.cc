#include "runner/text/decode_step.h"

#include <algorithm>
#include <string_view>

#include "data/convert.h"

namespace seqto::internal {
namespace {

int64_t likeliest(const Tensor& scores) {
  const std::vector<int64_t>& dims = scores.dims();
  if (dims.size() != 3 || scores.element_count() == 0 || !scores.is_float()) return 0;
  const Tensor values = convert(scores, DataType::kFloat, "scores");
  const auto last = values.values<float>().last(static_cast<size_t>(dims.back()));
  return std::ranges::max_element(last) - last.begin();
}

// The axis that grows by the tokens counts all that are remembered, those of a past that was given included. 0: none
// does.
int64_t grown_length(std::span<const int64_t> before, std::span<const int64_t> after, int64_t tokens) {
  for (size_t axis = 0; axis < before.size(); ++axis)
    if (after[axis] == before[axis] + tokens) return after[axis];
  return 0;
}

}  // namespace

std::string_view memory_of(std::string_view name) {
  for (const std::string_view prefix : {"past_key_values", "past", "present_key_values", "present"})
    if (name.starts_with(prefix) && name.size() > prefix.size() + 1) return name.substr(prefix.size() + 1);
  return {};
}

std::optional<DecodeStep> find_decode_step(std::span<const std::string> inputs, std::span<const std::string> outputs) {
  DecodeStep step;
  for (size_t i = 0; i < inputs.size(); ++i) {
    step.roles.push_back(role_of(inputs[i]));
    if (step.roles.back() != TokenRole::kMemory) continue;
    const std::string_view rest = memory_of(inputs[i]);
    const auto output = std::ranges::find_if(outputs, [&](const std::string& name) {
      return gives_memory(name) && !rest.empty() && memory_of(name) == rest;
    });
    if (output == outputs.end()) return {};
    step.memories.emplace_back(i, output - outputs.begin());
  }
  const bool reads_tokens = std::ranges::count(step.roles, TokenRole::kTokens) == 1;
  return reads_tokens && !step.memories.empty() ? std::optional(std::move(step)) : std::nullopt;
}

std::optional<std::vector<Tensor>> next_inputs(const DecodeStep& step, std::span<const Tensor> inputs,
                                               std::span<const Tensor> outputs) {
  std::vector<Tensor> next(inputs.begin(), inputs.end());
  const auto place = static_cast<size_t>(std::ranges::find(step.roles, TokenRole::kTokens) - step.roles.begin());
  const int64_t tokens = inputs[place].element_count();
  int64_t length = tokens;
  for (const auto& [input, output] : step.memories) {
    if (inputs[input].type() != outputs[output].type() || inputs[input].dims().size() != outputs[output].dims().size())
      return {};
    next[input] = outputs[output];
    length = std::max(length, grown_length(inputs[input].dims(), outputs[output].dims(), tokens));
  }
  for (size_t i = 0; i < next.size(); ++i) {
    if (!step.roles[i] && !inputs[i].dims().empty()) return {};
    if (!step.roles[i] || step.roles[i] == TokenRole::kMemory) continue;
    std::vector<int64_t> values(1);
    if (step.roles[i] == TokenRole::kTokens) values[0] = likeliest(outputs.front());
    if (step.roles[i] == TokenRole::kPositions) values[0] = length;
    if (step.roles[i] == TokenRole::kOnes) values.assign(static_cast<size_t>(length) + 1, 1);
    next[i] = token_row(std::move(values), inputs[i].dims().size(), inputs[i].type(), "the next step");
  }
  return next;
}

}  // namespace seqto::internal
