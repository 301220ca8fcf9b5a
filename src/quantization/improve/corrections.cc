// Corrections as a file.
#include <fmt/format.h>

#include <functional>
#include <tuple>
#include <utility>

#include "data/arrays.h"
#include "quantization/arithmetic/arithmetic.h"
#include "seqto/error.h"
#include "seqto/improve.h"

namespace seqto {
namespace {

constexpr std::string_view kCodes = "codes:", kScale = "scale:", kZeroPoint = "zero_point:", kBias = "bias:",
                           kErrors = "errors:", kShifts = "shifts:", kInt4 = "int4:", kUint4 = "uint4:",
                           kRescaled = "rescaled_", kBefore = "scale_before:";

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

Tensor in_4_bits(DataType type, const Tensor& codes) {
  auto values = codes.values<int8_t>();
  return internal::codes_tensor(type, codes.dims(), std::vector<int32_t>(values.begin(), values.end()));
}

// The layer, where the array is of this kind.
std::optional<LayerId> layer_of(const Initializer& array, std::string_view kind, DataType type) {
  if (!array.name.starts_with(kind) || array.tensor.type() != type) return {};
  return array.name.substr(kind.size());
}

// What all found codes have. False for an array of no known kind.
template <class Layer>
bool read_codes(const Initializer& array, std::map<LayerId, Layer>& into) {
  const auto& [name, tensor] = array;
  if (name.starts_with(kCodes)) into[name.substr(kCodes.size())].codes = tensor;
  else if (auto l = layer_of(array, kInt4, DataType::kInt8)) into[*l].codes = in_4_bits(DataType::kInt4, tensor);
  else if (auto l = layer_of(array, kUint4, DataType::kInt8)) into[*l].codes = in_4_bits(DataType::kUint4, tensor);
  else if (auto l = layer_of(array, kScale, DataType::kFloat)) into[*l].scale = floats_of(tensor);
  else if (auto l = layer_of(array, kZeroPoint, DataType::kInt32)) {
    auto zeros = tensor.values<int32_t>();
    into[*l].zero_point.assign(zeros.begin(), zeros.end());
  } else {
    return false;
  }
  return true;
}

std::optional<std::pair<double, double>> errors_of(const Tensor& tensor) {
  if (tensor.type() != DataType::kDouble || tensor.element_count() != 2) return {};
  return std::pair{tensor.values<double>()[0], tensor.values<double>()[1]};
}

bool read_rescaled(const Initializer& array, Rescaling& into) {
  const auto& [name, tensor] = array;
  if (auto l = layer_of(array, kBefore, DataType::kFloat)) {
    into[*l].scale_before = floats_of(tensor);
    return true;
  }
  if (!name.starts_with(kErrors)) return read_codes(array, into);
  const auto errors = errors_of(tensor);
  RescaledLayer& layer = into[name.substr(kErrors.size())];
  if (errors) std::tie(layer.error_before, layer.error_after) = *errors;
  return errors.has_value();
}

bool read(const Initializer& array, Corrections& into) {
  const auto& [name, tensor] = array;
  if (name.starts_with(kRescaled)) return read_rescaled({name.substr(kRescaled.size()), tensor}, into.scales);
  if (auto l = layer_of(array, kBias, DataType::kFloat)) into.rounding[*l].bias = floats_of(tensor);
  else if (auto l = layer_of(array, kShifts, DataType::kFloat)) into.shifts[*l] = floats_of(tensor);
  else if (auto errors = errors_of(tensor); errors && name.starts_with(kErrors)) {
    RoundedLayer& rounded = into.rounding[name.substr(kErrors.size())];
    std::tie(rounded.error_nearest, rounded.error_learned) = *errors;
  } else {
    return read_codes(array, into.rounding);
  }
  return true;
}

using Add = std::function<void(std::string_view kind, Tensor)>;

// .npz has no types of 4 bits: one byte each.
template <class Layer>
void add_codes(const Layer& found, const Add& add) {
  const Tensor& codes = found.codes;
  const bool is_int4 = codes.type() == DataType::kInt4;
  if (is_int4 || codes.type() == DataType::kUint4) {
    std::vector<int8_t> values;
    for (int64_t i = 0; i < codes.element_count(); ++i) values.push_back(static_cast<int8_t>(element(codes, i)));
    add(is_int4 ? kInt4 : kUint4, Tensor::from(DataType::kInt8, codes.dims(), std::move(values)));
  } else {
    add(kCodes, codes);
  }
  add(kScale, vector_of(found.scale));
  add(kZeroPoint, Tensor::from(DataType::kInt32, {std::ssize(found.zero_point)}, found.zero_point));
}

Tensor errors_tensor(double before, double after) {
  return Tensor::from(DataType::kDouble, {2}, std::vector{before, after});
}

}  // namespace

void save_corrections(const SchemeCorrections& corrections, const std::filesystem::path& path) {
  std::vector<Initializer> arrays;
  for (const auto& [scheme, found] : corrections) {
    const std::string prefix = fmt::format("{}/", to_string(scheme));
    const auto adds_to = [&](const LayerId& layer, std::string_view group = "") {
      return [&arrays, start = prefix + std::string(group), &layer](std::string_view kind, Tensor tensor) {
        arrays.push_back({start + std::string(kind) + layer, std::move(tensor)});
      };
    };
    for (const auto& [layer, r] : found.scales) {
      const Add add = adds_to(layer, kRescaled);
      add_codes(r, add);
      add(kBefore, vector_of(r.scale_before));
      add(kErrors, errors_tensor(r.error_before, r.error_after));
    }
    for (const auto& [layer, r] : found.rounding) {
      const Add add = adds_to(layer);
      add_codes(r, add);
      if (!r.bias.empty()) add(kBias, vector_of(r.bias));
      add(kErrors, errors_tensor(r.error_nearest, r.error_learned));
    }
    for (const auto& [layer, shifts] : found.shifts) adds_to(layer)(kShifts, vector_of(shifts));
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
