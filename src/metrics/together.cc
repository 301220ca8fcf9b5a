#include "metrics/together.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>

namespace seqto::internal {
namespace {

Tensor of_bytes(DataType type, std::vector<int64_t> dims, std::vector<std::byte> bytes) {
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  const std::span<const std::byte> view(*owner);
  return {type, std::move(dims), std::move(owner), view};
}

int64_t product(std::span<const int64_t> dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

Tensor filled(const Tensor& sequence, const Together& run) {
  const int64_t own = sequence.dims()[1];
  return run.fill == Fill::kBehind ? sequence_part(sequence, 0, run.positions)
                                   : sequence_part(sequence, own - run.positions, own);
}

// Where on each axis the sample's part begins.
std::optional<std::vector<int64_t>> begin_of(const std::vector<int64_t>& all, const std::vector<int64_t>& own,
                                             const Together& run, size_t place) {
  const auto batch = std::ssize(run.samples), at = static_cast<int64_t>(place);
  if (own.size() != all.size() || own.empty()) return {};
  std::vector<int64_t> begin(own.size());
  for (size_t axis = 0; axis < own.size(); ++axis) {
    if (own[axis] > all[axis]) return {};
    if (axis > 0 && run.fill == Fill::kInFront) begin[axis] = all[axis] - own[axis];
  }
  if (all[0] == own[0] * batch) {
    begin[0] = at * own[0];
  } else if (own[0] == run.samples[place]->positions && all[0] == run.positions * batch) {
    // The positions of all samples, one after the other.
    begin[0] = at * run.positions + (run.fill == Fill::kInFront ? run.positions - own[0] : 0);
  } else {
    return {};
  }
  return begin;
}

}  // namespace

bool is_sequence(const Tensor& t, int64_t positions) {
  return t.dims().size() == 2 && t.dims()[0] == 1 && t.dims()[1] == positions;
}

Tensor sequence_part(const Tensor& sequence, int64_t begin, int64_t end) {
  const int64_t own = sequence.dims()[1], from = std::max<int64_t>(begin, 0), to = std::min(end, own);
  const size_t width = sequence.bytes().size() / static_cast<size_t>(own);
  std::vector<std::byte> bytes(width * static_cast<size_t>(end - begin));
  std::memcpy(bytes.data() + width * static_cast<size_t>(from - begin),
              sequence.bytes().data() + width * static_cast<size_t>(from), width * static_cast<size_t>(to - from));
  return of_bytes(sequence.type(), {1, end - begin}, std::move(bytes));
}

std::vector<Tensor> stacked_inputs(const Together& run) {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < run.samples[0]->inputs.size(); ++i) {
    std::vector<std::byte> bytes;
    Tensor last;
    for (const Alone* s : run.samples) {
      last = s->inputs[i];
      if (s->positions > 0 && is_sequence(last, s->positions)) last = filled(last, run);
      bytes.insert(bytes.end(), last.bytes().begin(), last.bytes().end());
    }
    std::vector<int64_t> dims = last.dims();
    if (!dims.empty()) dims[0] *= std::ssize(run.samples);
    inputs.push_back(of_bytes(last.type(), std::move(dims), std::move(bytes)));
  }
  return inputs;
}

std::optional<Tensor> own_part(const Tensor& together, const Tensor& alone, const Together& run, size_t place) {
  const std::vector<int64_t>&all = together.dims(), &own = alone.dims();
  if (all == own) return together;
  const auto begin = begin_of(all, own, run, place);
  if (!begin) return {};
  const int64_t count = together.element_count();
  if (count == 0 || alone.element_count() == 0) return of_bytes(alone.type(), own, {});
  const size_t width = together.bytes().size() / static_cast<size_t>(count);
  const std::span rows(own.data(), own.size() - 1);
  const size_t row = static_cast<size_t>(own.back()) * width;
  std::vector<std::byte> bytes;
  for (int64_t i = 0; i < product(rows); ++i) {
    int64_t rest = i, from = begin->back(), stride = all.back();
    for (size_t axis = rows.size(); axis-- > 0; rest /= own[axis], stride *= all[axis])
      from += (rest % own[axis] + (*begin)[axis]) * stride;
    const auto at = together.bytes().begin() + static_cast<ptrdiff_t>(static_cast<size_t>(from) * width);
    bytes.insert(bytes.end(), at, at + static_cast<ptrdiff_t>(row));
  }
  return of_bytes(alone.type(), own, std::move(bytes));
}

std::optional<Difference> difference_of(const Tensor& alone, const Tensor& together) {
  if (std::ranges::equal(alone.bytes(), together.bytes())) return {};
  Difference d;
  double product = 0, a = 0, b = 0;
  for (int64_t i = 0; i < alone.element_count(); ++i) {
    const double x = element(alone, i), y = element(together, i);
    product += x * y, a += x * x, b += y * y;
    if (std::isfinite(x)) d.largest_abs = std::max(d.largest_abs, std::abs(x));
    const double off = x == y ? 0 : std::abs(x - y);  // equal infinities too
    if (!(off <= d.max_abs) && !std::isnan(d.max_abs)) d.max_abs = off;
  }
  d.cosine = a > 0 && b > 0 ? std::min(1.0, product / std::sqrt(a * b)) : 0;
  if (std::isnan(d.max_abs)) d.cosine = std::numeric_limits<double>::quiet_NaN();
  return d;
}

}  // namespace seqto::internal
