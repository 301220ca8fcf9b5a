#include "quantization/encode/move_constant.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>

#include "model/op_traits.h"
#include "quantization/arithmetic/stored_weights.h"

namespace seqto::internal {
namespace {

using Dims = std::vector<int64_t>;

// Of an attribute, or since opset 13 of the second input.
std::optional<Dims> integers(const Node& n, const char* attribute, const std::vector<const Tensor*>& in) {
  if (const Attribute* a = n.attribute(attribute)) {
    const auto* values = std::get_if<Dims>(&a->value);
    return values ? std::optional(*values) : std::nullopt;
  }
  if (in.size() < 2) return Dims{};
  if (in[1]->type() != DataType::kInt64) return {};
  auto values = in[1]->values<int64_t>();
  return Dims(values.begin(), values.end());
}

// Sorted, counted from the front; nothing where one is out of range or named twice.
std::optional<Dims> axes_of(Dims axes, int64_t rank) {
  for (int64_t& a : axes) {
    if (a < 0) a += rank;
    if (a < 0 || a >= rank) return {};
  }
  std::ranges::sort(axes);
  if (std::ranges::adjacent_find(axes) != axes.end()) return {};
  return axes;
}

std::optional<Dims> squeezed(const Dims& dims, const Dims& named) {
  auto axes = axes_of(named, std::ssize(dims));
  if (!axes) return {};
  Dims result;
  for (int64_t d = 0; d < std::ssize(dims); ++d) {
    const int64_t size = dims[static_cast<size_t>(d)];
    const bool out = named.empty() ? size == 1 : std::ranges::binary_search(*axes, d);
    if (out && size != 1) return {};
    if (!out) result.push_back(size);
  }
  return result;
}

std::optional<Dims> unsqueezed(const Dims& dims, const Dims& named) {
  auto axes = axes_of(named, std::ssize(dims) + std::ssize(named));
  if (!axes) return {};
  Dims result = dims;
  for (int64_t a : *axes) result.insert(result.begin() + a, 1);
  return result;
}

std::optional<Dims> reshaped(const Node& n, const Dims& dims, Dims wanted) {
  int64_t count = 1, known = 1;
  for (int64_t d : dims) count *= d;
  for (size_t d = 0; d < wanted.size(); ++d) {
    if (wanted[d] == 0 && n.int_attribute("allowzero", 0) == 0) wanted[d] = d < dims.size() ? dims[d] : -2;
    if (wanted[d] < -1) return {};
    if (wanted[d] >= 0 && __builtin_mul_overflow(known, wanted[d], &known)) return {};
  }
  const auto open = std::ranges::count(wanted, -1);
  if (open > 1 || (open == 1 && (known == 0 || count % known != 0)) || (open == 0 && known != count)) return {};
  std::ranges::replace(wanted, -1, open == 1 ? count / known : 0);
  return wanted;
}

std::optional<Tensor> turned(const Node& n, const Tensor& tensor) {
  const auto rank = std::ssize(tensor.dims());
  Dims permutation(static_cast<size_t>(rank));
  std::iota(permutation.rbegin(), permutation.rend(), 0);
  if (n.attribute("perm")) {
    auto given = integers(n, "perm", {});
    if (!given || std::ssize(*given) != rank || !axes_of(*given, rank) || std::ranges::min(*given) < 0) return {};
    permutation = *given;
  }
  return transposed(tensor, permutation);
}

// How the bytes of a float tensor lie along one axis: `size` pieces of `inner` bytes, `outer` times.
struct Along {
  Along(const Tensor& tensor, size_t axis) : size(static_cast<size_t>(tensor.dims()[axis])) {
    for (size_t d = 0; d < axis; ++d) outer *= static_cast<size_t>(tensor.dims()[d]);
    if (outer * size > 0) inner = tensor.bytes().size() / (outer * size);
  }
  size_t outer = 1, size, inner = 0;
};

using Bytes = std::vector<std::byte>;

void append(Bytes& bytes, std::span<const std::byte> piece) { bytes.insert(bytes.end(), piece.begin(), piece.end()); }

Tensor holding(DataType type, Dims dims, Bytes values) {
  auto owner = std::make_shared<const Bytes>(std::move(values));
  return Tensor(type, std::move(dims), owner, *owner);
}

std::optional<Tensor> joined(const Node& n, const std::vector<const Tensor*>& in) {
  Dims dims = in[0]->dims();
  const auto axes = axes_of({n.int_attribute("axis", 0)}, std::ssize(dims));
  if (!axes || in.size() != n.inputs.size()) return {};
  const auto axis = static_cast<size_t>(axes->front());
  dims[axis] = 0;
  for (const Tensor* tensor : in) {
    Dims rest = tensor->dims();
    if (tensor->type() != in[0]->type() || rest.size() != dims.size()) return {};
    rest[axis] = dims[axis];
    if (rest != dims) return {};
    dims[axis] += tensor->dims()[axis];
  }
  Bytes bytes;
  for (size_t o = 0; o < Along(*in[0], axis).outer; ++o)
    for (const Tensor* tensor : in) {
      const Along at(*tensor, axis);
      append(bytes, tensor->bytes().subspan(o * at.size * at.inner, at.size * at.inner));
    }
  return holding(in[0]->type(), std::move(dims), std::move(bytes));
}

// `count` of them along the axis, from `start` on.
Tensor piece(const Tensor& tensor, size_t axis, int64_t start, int64_t count) {
  const Along at(tensor, axis);
  Bytes bytes;
  for (size_t o = 0; o < at.outer; ++o)
    append(bytes, tensor.bytes().subspan((o * at.size + static_cast<size_t>(start)) * at.inner,
                                         static_cast<size_t>(count) * at.inner));
  Dims dims = tensor.dims();
  dims[axis] = count;
  return holding(tensor.type(), std::move(dims), std::move(bytes));
}

// Of sizes that are given, or equal but for the last.
std::vector<Tensor> split(const Node& n, const std::vector<const Tensor*>& in) {
  const auto axes = axes_of({n.int_attribute("axis", 0)}, std::ssize(in[0]->dims()));
  auto sizes = integers(n, "split", in);
  if (!axes || !sizes) return {};
  const auto axis = static_cast<size_t>(axes->front());
  const int64_t size = in[0]->dims()[axis], count = std::ssize(n.outputs), part = (size + count - 1) / count;
  if (sizes->empty())
    for (int64_t k = 0; k < count; ++k) sizes->push_back(std::min(part, size - k * part));
  if (std::ssize(*sizes) != count) return {};
  std::vector<Tensor> pieces;
  int64_t start = 0;
  for (const int64_t s : *sizes) {
    if (s < 0 || s > size - start) return {};
    pieces.push_back(piece(*in[0], axis, start, s));
    start += s;
  }
  if (start != size) return {};
  return pieces;
}

// From opset 10 on, in steps of 1.
std::optional<Tensor> sliced(const Node& n, const std::vector<const Tensor*>& in) {
  if (in.size() < 3 || in.size() != n.inputs.size()) return {};
  std::vector<std::span<const int64_t>> given;  // starts, ends, axes, steps
  for (size_t i = 1; i < in.size(); ++i) {
    if (in[i]->type() != DataType::kInt64 || in[i]->element_count() != in[1]->element_count()) return {};
    given.push_back(in[i]->values<int64_t>());
  }
  if (given.size() > 3 && std::ranges::any_of(given[3], [](int64_t step) { return step != 1; })) return {};
  Tensor result = *in[0];
  const int64_t rank = std::ssize(result.dims());
  for (size_t i = 0; i < given[0].size(); ++i) {
    const auto axes = axes_of({given.size() > 2 ? given[2][i] : static_cast<int64_t>(i)}, rank);
    if (!axes) return {};
    const auto axis = static_cast<size_t>(axes->front());
    const int64_t size = result.dims()[axis];
    const auto place = [&](int64_t p) { return std::clamp(p < 0 ? p + size : p, int64_t{0}, size); };
    const int64_t start = place(given[0][i]);
    result = piece(result, axis, start, std::max(int64_t{0}, place(given[1][i]) - start));
  }
  return result;
}

}  // namespace

bool cuts_constant(const Node& n) { return is_slice(n) || is_split(n); }

bool moves_constant(const Node& n) {
  return n.domain.empty() && (n.outputs.size() == 1 || (is_split(n) && !n.outputs.empty())) &&
         (is_identity(n) || has(n, kMovesValues) || is_split(n) || is_concat(n));
}

std::vector<Tensor> move_constant(const Node& n, const std::vector<const Tensor*>& in) {
  if (in.empty() || !in[0]->is_float() || (cuts_constant(n) && in[0]->element_count() == 0)) return {};
  const auto any = [](std::optional<Tensor> t) { return t ? std::vector{std::move(*t)} : std::vector<Tensor>(); };
  if (is_identity(n)) return {*in[0]};
  if (is_transpose(n)) return any(turned(n, *in[0]));
  if (is_concat(n)) return any(joined(n, in));
  if (is_slice(n)) return any(sliced(n, in));
  if (cuts_constant(n)) return split(n, in);
  const auto named = integers(n, is_reshape(n) ? "shape" : "axes", in);
  if (!named) return {};
  const Dims& dims = in[0]->dims();
  const auto result = is_reshape(n)              ? reshaped(n, dims, *named)
                      : n.op_type == "Unsqueeze" ? unsqueezed(dims, *named)
                                                 : squeezed(dims, *named);
  return any(result ? std::optional(in[0]->reshaped(*result)) : std::nullopt);
}

}  // namespace seqto::internal
