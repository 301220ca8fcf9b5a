#include "metrics/loss/pooling.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "seqto/error.h"

namespace seqto {
namespace {

constexpr std::array<std::pair<Pooling, std::string_view>, 5> kPoolings{{{Pooling::kNone, "none"},
                                                                         {Pooling::kWhole, "whole"},
                                                                         {Pooling::kMean, "mean"},
                                                                         {Pooling::kFirst, "first"},
                                                                         {Pooling::kLast, "last"}}};

}  // namespace

std::string_view to_string(Pooling pooling) {
  return std::ranges::find(kPoolings, pooling, &std::pair<Pooling, std::string_view>::first)->second;
}

Pooling parse_pooling(std::string_view name) {
  for (const auto& [pooling, known] : kPoolings)
    if (known == name && pooling != Pooling::kNone) return pooling;
  throw Error(Code::kUsage, fmt::format("[task] --pooling {} found; whole, mean, first or last expected", name));
}

namespace internal {

std::vector<float> pooled(std::span<const float> values, size_t features, Pooling pooling) {
  const size_t positions = features == 0 ? 0 : values.size() / features;
  if (pooling == Pooling::kWhole || positions == 0) features = values.size();
  std::vector<double> sums(features);
  const auto add = [&](size_t position) {
    for (size_t f = 0; f < features; ++f) sums[f] += values[position * features + f];
  };
  if (pooling == Pooling::kLast && positions > 0) add(positions - 1);
  else if (pooling == Pooling::kMean)
    for (size_t i = 0; i < positions; ++i) add(i);
  else if (!values.empty()) add(0);
  double square = 0;
  for (const double sum : sums) square += sum * sum;
  const double scale = square > 0 ? 1 / std::sqrt(square) : 1;
  std::vector<float> vector;
  for (const double sum : sums) vector.push_back(static_cast<float>(sum * scale));
  return vector;
}

}  // namespace internal
}  // namespace seqto
