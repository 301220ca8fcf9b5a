// Shapes of samples against shapes of model inputs.
#include "data/shapes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace seqto::internal {
namespace {

bool matches(std::span<const int64_t> dims, std::span<const Dimension> shape) {
  if (dims.size() != shape.size()) return false;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (shape[d].value >= 0 && shape[d].value != dims[d]) return false;
  }
  return true;
}

std::vector<int64_t> with_batch(std::span<const int64_t> dims) {
  std::vector<int64_t> result{1};
  result.insert(result.end(), dims.begin(), dims.end());
  return result;
}

}  // namespace

std::string shape_text(std::span<const int64_t> dims) { return fmt::format("[{}]", fmt::join(dims, ", ")); }

std::string shape_text(const ValueInfo& input) {
  if (!input.shape) return "any shape";
  std::vector<std::string> parts;
  for (const auto& [value, parameter] : *input.shape) {
    parts.push_back(value >= 0 ? std::to_string(value) : parameter.empty() ? "?" : parameter);
  }
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

std::optional<std::vector<int64_t>> match_shape(std::span<const int64_t> sample, const ValueInfo& input) {
  std::vector<int64_t> batched = with_batch(sample);
  if (!input.shape || matches(batched, *input.shape)) return batched;
  if (matches(sample, *input.shape)) return std::vector<int64_t>(sample.begin(), sample.end());
  return std::nullopt;
}

std::vector<int64_t> closed_shape(const ValueInfo& input, std::span<const ValueInfo> inputs) {
  // Some exporters write "?" for every dimension that they do not know: no name of anything.
  const auto has_name = [](const std::string& symbol) { return !symbol.empty() && symbol != "?"; };
  const auto is_batch = [&](size_t axis) {
    if (axis == 0) return true;
    const std::string& symbol = (*input.shape)[axis].parameter;
    return has_name(symbol) && std::any_of(inputs.begin(), inputs.end(), [&](const ValueInfo& other) {
             return other.shape && !other.shape->empty() && other.shape->front().parameter == symbol;
           });
  };
  std::vector<int64_t> dims;
  std::vector<std::string> open;
  for (size_t axis = 0; input.shape && axis < input.shape->size(); ++axis) {
    const auto& [value, parameter] = (*input.shape)[axis];
    dims.push_back(value >= 0 ? value : 1);
    if (value >= 0 || is_batch(axis)) continue;
    open.push_back(has_name(parameter) ? parameter : fmt::format("{}:{}", input.name, axis));
  }
  if (input.shape && open.empty()) return dims;
  const std::string wanted = open.empty() ? "each dimension" : fmt::format("{}", fmt::join(open, ", "));
  if (open.empty()) open.push_back(input.name + ":AXIS");
  throw Error(Code::kInvalidInput,
              fmt::format("[data] the model input '{}' {} found; a size for {} expected; say it with --dim {}=SIZE",
                          input.name, shape_text(input), wanted, fmt::join(open, "=SIZE --dim ")));
}

void check_batch(std::span<const int64_t> sample, const ValueInfo& input) {
  if (!input.shape || input.shape->empty() || input.shape->front().value <= 1) return;
  std::vector<Dimension> free = *input.shape;
  free.front().value = 1;
  if (!matches(sample, free) && !matches(with_batch(sample), free)) return;
  const int64_t batch = input.shape->front().value;
  throw FixedBatch(
      fmt::format("[data] the model input '{}' {} has a fixed batch of {}; with labels or states 1 or a symbolic "
                  "batch expected; leave them out, or export the model with a free batch dimension",
                  input.name, shape_text(input), batch),
      batch);
}

}  // namespace seqto::internal
