#include "runner/text/run_hints.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

namespace seqto::internal {
namespace {

// Behind the first `key`.
std::optional<int64_t> number_after(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  if (at == text.npos) return {};
  int64_t number = 0;
  const auto read = std::from_chars(text.data() + at + key.size(), text.data() + text.size(), number);
  return read.ec == std::errc() ? std::optional(number) : std::nullopt;
}

// An encoder and its decoder as one model have two: input_ids and decoder_input_ids.
bool reads_tokens(std::string_view input) { return input.ends_with("input_ids"); }

bool holds(const Tensor& input, int64_t value) {
  if (input.type() != DataType::kInt64 && input.type() != DataType::kInt32) return false;
  for (int64_t i = 0; i < input.element_count(); ++i)
    if (element(input, i) == static_cast<double>(value)) return true;
  return false;
}

// What a Gather was to look up, and did not find.
std::string hint_on_table(std::string_view said, std::span<const std::string> names, std::span<const Tensor> inputs,
                          int64_t longest) {
  const auto index = number_after(said, "idx="), last = number_after(said.substr(said.find("range [")), ",");
  if (!index || !last) return {};
  const int64_t rows = *last + 1;
  // Positions count up, so the first that is too large is as large as the table; a token may be as large by chance.
  const bool like_position = *index == rows && longest > rows;
  for (size_t i = 0; i < inputs.size() && !like_position; ++i) {
    if (!holds(inputs[i], *index)) continue;
    if (reads_tokens(names[i]))
      return fmt::format(
          "the token {} of '{}' and a table of {} rows found; tokens from 0 to {} expected; give the "
          "tokenizer of this model, or ids that it made",
          *index, names[i], rows, *last);
    return fmt::format("{} in '{}' and a table of {} rows found; 0 to {} expected there", *index, names[i], rows,
                       *last);
  }
  if (longest <= 0) return {};
  return fmt::format(
      "{} tokens and a table of {} positions found; texts that are no longer expected; of text files "
      "give a smaller --length",
      longest, rows);
}

}  // namespace

std::string run_hint(std::string_view said, std::span<const std::string> names, std::span<const Tensor> inputs) {
  int64_t longest = 0;  // text
  for (size_t i = 0; i < inputs.size(); ++i)
    if (reads_tokens(names[i]) && inputs[i].dims().size() == 2) longest = std::max(longest, inputs[i].dims()[1]);
  const auto tells = [&](std::string_view words) { return said.find(words) != said.npos; };
  if (tells("indices element out of data bounds") && tells("range ["))
    return hint_on_table(said, names, inputs, longest);
  const bool shapes_differ = tells("BroadcastIterator") || tells("invalid expand shape") || tells("to broadcast");
  if (!shapes_differ || longest == 0) return {};
  return fmt::format(
      "{} tokens found; where the model's table of positions is shorter, fewer expected; of text files "
      "give a smaller --length",
      longest);
}

}  // namespace seqto::internal
