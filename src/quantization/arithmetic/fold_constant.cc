#include "quantization/arithmetic/fold_constant.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string_view>

#include "model/op_traits.h"
#include "quantization/arithmetic/channels.h"
#include "quantization/arithmetic/stored_weights.h"
#include "quantization/plan/overrides.h"

namespace seqto::internal {
namespace {

// Values as doubles: exact for every type that stored weights have, up to the float products, rounded as floats.
struct Values {
  DataType type = DataType::kFloat;
  std::vector<int64_t> dims;
  std::vector<double> data;
};

// Whether element() reads it.
bool has_numbers(DataType type) {
  return type != DataType::kString && type != DataType::kFloat8e4m3fn && to_string(type) != "other";
}

Values read(const Tensor& t) {
  Values v{t.type(), t.dims(), std::vector<double>(static_cast<size_t>(t.element_count()))};
  for (size_t i = 0; i < v.data.size(); ++i) v.data[i] = element(t, static_cast<int64_t>(i));
  return v;
}

// What a type does not hold becomes in it what the machine likes.
template <class T>
bool holds(double value) {
  constexpr auto least = static_cast<double>(std::numeric_limits<T>::lowest()),
                 most = static_cast<double>(std::numeric_limits<T>::max());
  return (value >= least || value > least - 1) && (value <= most || value < most + 1) && value < 0x1p63;
}

std::optional<Tensor> write(const Values& v) {
  auto as = [&]<class T>(T) -> std::optional<Tensor> {
    if (!std::ranges::all_of(v.data, holds<T>)) return {};
    return Tensor::from(v.type, v.dims, std::vector<T>(v.data.begin(), v.data.end()));
  };
  switch (v.type) {
    case DataType::kFloat:
    case DataType::kFloat16:
      return in_type(v.type, v.dims, std::vector<float>(v.data.begin(), v.data.end()));
    case DataType::kInt8:
      return as(int8_t{});
    case DataType::kUint8:
      return as(uint8_t{});
    case DataType::kInt32:
      return as(int32_t{});
    case DataType::kInt64:
      return as(int64_t{});
    default:
      return {};
  }
}

// Numpy's broadcasting.
template <class F>
std::optional<Values> elementwise(const Values& a, const Values& b, F f) {
  Values out{a.type, {}, {}};
  size_t rank = std::max(a.dims.size(), b.dims.size());
  auto dim = [&](const Values& v, size_t d) {
    size_t missing = rank - v.dims.size();
    return d < missing ? int64_t{1} : v.dims[d - missing];
  };
  for (size_t d = 0; d < rank; ++d) {
    if (dim(a, d) != dim(b, d) && dim(a, d) != 1 && dim(b, d) != 1) return {};
    out.dims.push_back(dim(a, d) == 1 ? dim(b, d) : dim(a, d));
  }
  int64_t count = std::accumulate(out.dims.begin(), out.dims.end(), int64_t{1}, std::multiplies<>());
  std::vector<int64_t> at(rank, 0);
  auto value = [&](const Values& v) {
    int64_t index = 0;
    for (size_t d = 0; d < rank; ++d) index = index * dim(v, d) + (dim(v, d) == 1 ? 0 : at[d]);
    return v.data[static_cast<size_t>(index)];
  };
  for (int64_t i = 0; i < count; ++i) {
    out.data.push_back(f(value(a), value(b)));
    for (size_t d = rank; d-- > 0;) {
      if (++at[d] < out.dims[d]) break;
      at[d] = 0;
    }
  }
  return out;
}

std::optional<Values> reshape(Values v, const std::vector<double>& wanted) {
  std::vector<int64_t> dims(wanted.begin(), wanted.end());
  int64_t known = 1;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 0 && d < v.dims.size()) dims[d] = v.dims[d];
    if (dims[d] > 0) known *= dims[d];
  }
  for (int64_t& d : dims)
    if (d < 0) d = known ? std::ssize(v.data) / known : 0;
  if (std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>()) != std::ssize(v.data)) return {};
  v.dims = std::move(dims);
  return v;
}

// A run of one axis.
std::optional<Values> slice(const Values& v, const std::vector<Values>& in) {
  for (size_t k = 1; k < 4; ++k)
    if (in.size() != 4 || in[k].data.size() != 1) return {};
  const auto axis = normalized_axis(static_cast<int64_t>(in[3].data[0]), v.dims.size());
  if (!axis) return {};
  const auto length = v.dims[static_cast<size_t>(*axis)], inner = static_cast<int64_t>(strides(v.dims, axis).inner);
  const auto most = static_cast<double>(length);  // ends of "all" are as large as an int64 can be
  auto bound = [&](double x) { return static_cast<int64_t>(std::clamp(x < 0 ? x + most : x, 0.0, most)); };
  int64_t first = bound(in[1].data[0]), last = bound(in[2].data[0]);
  Values out{v.type, v.dims, {}};
  out.dims[static_cast<size_t>(*axis)] = std::max<int64_t>(0, last - first);
  for (int64_t i = 0; i < std::ssize(v.data); ++i)
    if (int64_t along = i / inner % length; along >= first && along < last)
      out.data.push_back(v.data[static_cast<size_t>(i)]);
  return out;
}

std::optional<Values> concat_first_axis(const std::vector<Values>& in) {
  Values out = in[0];
  if (out.dims.empty()) return {};
  for (size_t k = 1; k < in.size(); ++k) {
    if (in[k].dims.size() != out.dims.size() ||
        !std::equal(out.dims.begin() + 1, out.dims.end(), in[k].dims.begin() + 1))
      return {};
    out.dims[0] += in[k].dims[0];
    out.data.insert(out.data.end(), in[k].data.begin(), in[k].data.end());
  }
  return out;
}

bool is_permutation(std::vector<int64_t> axes, size_t rank) {
  std::vector<int64_t> all(rank);
  std::iota(all.begin(), all.end(), 0);
  std::sort(axes.begin(), axes.end());
  return axes == all;
}

std::optional<Tensor> transpose(const Node& n, const Tensor& tensor) {
  const Attribute* perm = n.attribute("perm");
  const auto* axes = perm ? std::get_if<std::vector<int64_t>>(&perm->value) : nullptr;
  if (!axes || !tensor.is_float() || !is_permutation(*axes, tensor.dims().size())) return {};
  return transposed(tensor, *axes);
}

std::optional<Values> bit_shift(const Node& n, const Values& a, const Values& b) {
  if (a.type != DataType::kUint8) return {};
  const bool left = n.string_attribute("direction", "LEFT") == "LEFT";
  return elementwise(a, b, [&](double x, double y) {
    unsigned code = static_cast<unsigned>(x), bits = static_cast<unsigned>(y);
    return static_cast<double>((left ? code << bits : code >> bits) & 255u);
  });
}

using Inputs = const std::vector<Values>&;
struct Fold {
  std::string_view op_type;
  size_t inputs;  // 0: any number
  std::optional<Values> (*fold)(const Node&, Inputs);
};
constexpr Fold kFolds[] = {
    {"BitShift", 2, [](const Node& n, Inputs in) { return bit_shift(n, in[0], in[1]); }},
    {"Cast", 0,
     [](const Node& n, Inputs in) {
       return std::optional(Values{static_cast<DataType>(n.int_attribute("to", 1)), in[0].dims, in[0].data});
     }},
    {"Concat", 0,
     [](const Node& n, Inputs in) { return n.int_attribute("axis", 0) == 0 ? concat_first_axis(in) : std::nullopt; }},
    {"Mul", 2,
     [](const Node&, Inputs in) {
       const bool floats = in[0].type == DataType::kFloat || in[0].type == DataType::kFloat16;
       return elementwise(in[0], in[1], [&](double a, double b) { return floats ? static_cast<float>(a * b) : a * b; });
     }},
    {"Reshape", 2, [](const Node&, Inputs in) { return reshape(in[0], in[1].data); }},
    {"Slice", 0, [](const Node&, Inputs in) { return slice(in[0], in); }},
    {"Sub", 2,
     [](const Node&, Inputs in) { return elementwise(in[0], in[1], [](double a, double b) { return a - b; }); }},
};

}  // namespace

std::optional<Tensor> fold_constant(const Node& n, const std::vector<const Tensor*>& tensors) {
  if (tensors.empty() || !std::ranges::all_of(tensors, has_numbers, &Tensor::type)) return {};
  if (is_transpose(n)) return transpose(n, *tensors[0]);
  const auto* fold = std::ranges::find(kFolds, n.op_type, &Fold::op_type);
  if (fold == std::end(kFolds) || (fold->inputs > 0 && tensors.size() != fold->inputs)) return {};
  std::vector<Values> in;
  for (const Tensor* t : tensors) in.push_back(read(*t));
  const auto out = fold->fold(n, in);
  return out ? write(*out) : std::nullopt;
}

}  // namespace seqto::internal
