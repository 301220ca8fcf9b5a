#include "quantization/encode/move_constant.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

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

}  // namespace

bool moves_constant(const Node& n) {
  const std::string& op = n.op_type;
  return n.domain.empty() && n.outputs.size() == 1 &&
         (op == "Identity" || op == "Transpose" || op == "Reshape" || op == "Squeeze" || op == "Unsqueeze");
}

std::optional<Tensor> move_constant(const Node& n, const std::vector<const Tensor*>& in) {
  if (in.empty() || !in[0]->is_float()) return {};
  if (is_identity(n)) return *in[0];
  if (is_transpose(n)) return turned(n, *in[0]);
  const auto named = integers(n, is_reshape(n) ? "shape" : "axes", in);
  if (!named) return {};
  const Dims& dims = in[0]->dims();
  const auto result = is_reshape(n)              ? reshaped(n, dims, *named)
                      : n.op_type == "Unsqueeze" ? unsqueezed(dims, *named)
                                                 : squeezed(dims, *named);
  return result ? std::optional(in[0]->reshaped(*result)) : std::nullopt;
}

}  // namespace seqto::internal
