// Corrections as a file.
#include <fmt/format.h>

#include <functional>
#include <utility>

#include "data/arrays.h"
#include "quantization/arithmetic/arithmetic.h"
#include "seqto/error.h"
#include "seqto/improve.h"

namespace seqto {
namespace {

constexpr std::string_view kCodes = "codes:", kScale = "scale:", kZeroPoint = "zero_point:", kBias = "bias:",
                           kErrors = "errors:", kShifts = "shifts:", kInt4 = "int4:", kUint4 = "uint4:";

std::optional<DetailedScheme> scheme_named(const std::string& name) {
  try {
    return parse_detailed_scheme(name);
  } catch (const Error&) {
    return {};
  }
}

Tensor vector_of(const std::vector<float>& values) { return float_tensor({std::ssize(values)}, values); }

std::vector<float> floats_of(const Tensor& tensor) {
  auto values = tensor.values<float>();
  return {values.begin(), values.end()};
}

// .npz has no types of 4 bits: one byte each.
void add_codes(const Tensor& codes, const LayerId& layer,
               const std::function<void(std::string_view, const LayerId&, Tensor)>& add) {
  const bool is_int4 = codes.type() == DataType::kInt4;
  if (!is_int4 && codes.type() != DataType::kUint4) return add(kCodes, layer, codes);
  std::vector<int8_t> values;
  for (int64_t i = 0; i < codes.element_count(); ++i) values.push_back(static_cast<int8_t>(element(codes, i)));
  add(is_int4 ? kInt4 : kUint4, layer, Tensor::from(DataType::kInt8, codes.dims(), std::move(values)));
}
Tensor in_4_bits(DataType type, const Tensor& codes) {
  auto values = codes.values<int8_t>();
  return internal::codes_tensor(type, codes.dims(), std::vector<int32_t>(values.begin(), values.end()));
}

// False for an array of no known kind.
bool read(const Initializer& array, Corrections& into) {
  const auto& [name, tensor] = array;
  auto layer = [&](std::string_view kind, DataType type) -> std::optional<LayerId> {
    if (!name.starts_with(kind) || tensor.type() != type) return {};
    return name.substr(kind.size());
  };
  if (name.starts_with(kCodes)) into.rounding[name.substr(kCodes.size())].codes = tensor;
  else if (auto l = layer(kInt4, DataType::kInt8)) into.rounding[*l].codes = in_4_bits(DataType::kInt4, tensor);
  else if (auto l = layer(kUint4, DataType::kInt8)) into.rounding[*l].codes = in_4_bits(DataType::kUint4, tensor);
  else if (auto l = layer(kScale, DataType::kFloat)) into.rounding[*l].scale = floats_of(tensor);
  else if (auto l = layer(kBias, DataType::kFloat)) into.rounding[*l].bias = floats_of(tensor);
  else if (auto l = layer(kShifts, DataType::kFloat)) into.shifts[*l] = floats_of(tensor);
  else if (auto l = layer(kZeroPoint, DataType::kInt32)) {
    auto zeros = tensor.values<int32_t>();
    into.rounding[*l].zero_point.assign(zeros.begin(), zeros.end());
  } else if (auto l = layer(kErrors, DataType::kDouble); l && tensor.element_count() == 2) {
    RoundedLayer& rounded = into.rounding[*l];
    rounded.error_nearest = tensor.values<double>()[0];
    rounded.error_learned = tensor.values<double>()[1];
  } else {
    return false;
  }
  return true;
}

}  // namespace

void save_corrections(const SchemeCorrections& corrections, const std::filesystem::path& path) {
  std::vector<Initializer> arrays;
  for (const auto& [scheme, found] : corrections) {
    const std::string prefix = fmt::format("{}/", to_string(scheme));
    const auto add = [&](std::string_view kind, const LayerId& layer, Tensor tensor) {
      arrays.push_back({prefix + std::string(kind) + layer, std::move(tensor)});
    };
    for (const auto& [layer, r] : found.rounding) {
      add_codes(r.codes, layer, add);
      add(kScale, layer, vector_of(r.scale));
      add(kZeroPoint, layer, Tensor::from(DataType::kInt32, {std::ssize(r.zero_point)}, r.zero_point));
      if (!r.bias.empty()) add(kBias, layer, vector_of(r.bias));
      add(kErrors, layer, Tensor::from(DataType::kDouble, {2}, std::vector{r.error_nearest, r.error_learned}));
    }
    for (const auto& [layer, shifts] : found.shifts) add(kShifts, layer, vector_of(shifts));
  }
  save_npz(path, arrays);
}

SchemeCorrections load_corrections(const std::filesystem::path& path) {
  SchemeCorrections result;
  const internal::ArrayFile file(path, /*may_be_empty=*/true);  // where none were found
  for (const std::string& stored : file.names()) {
    Initializer array{stored, file.load(stored)};
    const size_t slash = array.name.find('/');
    const auto scheme = slash == std::string::npos ? std::nullopt : scheme_named(array.name.substr(0, slash));
    const std::string name = std::exchange(array.name, array.name.substr(slash + 1));
    if (!scheme || !read(array, result[*scheme]))
      throw Error(Code::kInvalidInput,
                  fmt::format("[corrections] array '{}' of {} found; one of those that seqto writes was expected; "
                              "delete the file, so that it is made again",
                              name, path.string()));
  }
  return result;
}

}  // namespace seqto
