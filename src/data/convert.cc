// Elements of one type as another: arrays to what the model reads.
#include "data/convert.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "seqto/error.h"

namespace seqto::internal {
namespace {

struct Half {
  uint16_t bits;
};
struct Bool {
  uint8_t value;
};

// Calls visit with an element of the C++ type that holds `type`; false for types that are no plain numbers.
template <class Visit>
bool with_element(DataType type, Visit&& visit) {
  switch (type) {
    case DataType::kFloat:
      visit(float{});
      return true;
    case DataType::kDouble:
      visit(double{});
      return true;
    case DataType::kFloat16:
      visit(Half{});
      return true;
    case DataType::kBool:
      visit(Bool{});
      return true;
    case DataType::kInt8:
      visit(int8_t{});
      return true;
    case DataType::kUint8:
      visit(uint8_t{});
      return true;
    case DataType::kInt16:
      visit(int16_t{});
      return true;
    case DataType::kUint16:
      visit(uint16_t{});
      return true;
    case DataType::kInt32:
      visit(int32_t{});
      return true;
    case DataType::kUint32:
      visit(uint32_t{});
      return true;
    case DataType::kInt64:
      visit(int64_t{});
      return true;
    case DataType::kUint64:
      visit(uint64_t{});
      return true;
    default:
      return false;
  }
}

template <class From>
double load(From value) {
  if constexpr (std::is_same_v<From, Half>) return from_half(value.bits);
  else if constexpr (std::is_same_v<From, Bool>) return value.value != 0;
  else return static_cast<double>(value);
}

// False when an integer type cannot hold the value.
template <class To>
bool store(double value, To& out) {
  if constexpr (std::is_same_v<To, Half>) {
    out.bits = to_half(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, Bool>) {
    out.value = value != 0;
  } else if constexpr (std::is_floating_point_v<To>) {
    out = static_cast<To>(value);
  } else {
    // The upper limit as a power of two: the largest 64-bit integers are no doubles.
    if (std::nearbyint(value) != value || value < static_cast<double>(std::numeric_limits<To>::min()) ||
        value >= std::ldexp(1.0, std::numeric_limits<To>::digits)) {
      return false;
    }
    out = static_cast<To>(value);
  }
  return true;
}

}  // namespace

float from_half(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16, exponent = (bits >> 10) & 31u, fraction = bits & 1023u;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent > 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float tiny = std::ldexp(static_cast<float>(fraction), -24);
  return sign ? -tiny : tiny;
}

uint16_t to_half(float value) {
  const auto sign = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16 & 0x8000u);
  const float magnitude = std::abs(value);
  if (std::isnan(value)) return sign | 0x7e00u;
  if (magnitude >= 65520.0f) return sign | 0x7c00u;
  if (magnitude < 0x1p-14f) return sign | static_cast<uint16_t>(std::nearbyint(std::ldexp(magnitude, 24)));
  const auto bits = std::bit_cast<uint32_t>(magnitude);
  // Half of the dropped part, one less where the kept part is even; a carry runs into the exponent as it should.
  const uint32_t rounded = bits + 0xfffu + (bits >> 13 & 1u);
  return sign | static_cast<uint16_t>((rounded >> 13) - (112u << 10));
}

Tensor convert(const Tensor& tensor, DataType type, const std::string& name) {
  if (tensor.type() == type || type == DataType::kUndefined) return tensor;
  Tensor result;
  bool numbers = false;
  with_element(tensor.type(), [&]<class From>(From) {
    numbers = with_element(type, [&]<class To>(To) {
      const auto in = tensor.values<From>();
      std::vector<To> out(in.size());
      for (size_t i = 0; i < in.size(); ++i) {
        if (const double value = load(in[i]); !store(value, out[i])) {
          throw Error(Code::kInvalidInput,
                      fmt::format("[data] {}: the value {} found; the model reads {}; give values that it holds", name,
                                  value, to_string(type)));
        }
      }
      result = Tensor::from(type, tensor.dims(), std::move(out));
    });
  });
  if (!numbers) {
    throw Error(Code::kInvalidInput, fmt::format("[data] {}: elements of type {} found; {} expected; convert the array",
                                                 name, to_string(tensor.type()), to_string(type)));
  }
  return result;
}

}  // namespace seqto::internal
