#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "seqto/error.h"
#include "seqto/model.h"

namespace seqto {
namespace {

struct Row {
  DataType type;
  std::string_view name;
  size_t bits;
};
constexpr std::array kTypes{
    Row{DataType::kUndefined, "undefined", 0}, Row{DataType::kFloat, "float32", 32},
    Row{DataType::kUint8, "uint8", 8},         Row{DataType::kInt8, "int8", 8},
    Row{DataType::kUint16, "uint16", 16},      Row{DataType::kInt16, "int16", 16},
    Row{DataType::kInt32, "int32", 32},        Row{DataType::kInt64, "int64", 64},
    Row{DataType::kString, "string", 0},       Row{DataType::kBool, "bool", 8},
    Row{DataType::kFloat16, "float16", 16},    Row{DataType::kDouble, "float64", 64},
    Row{DataType::kUint32, "uint32", 32},      Row{DataType::kUint64, "uint64", 64},
    Row{DataType::kBfloat16, "bfloat16", 16},  Row{DataType::kFloat8e4m3fn, "float8e4m3", 8},
    Row{DataType::kUint4, "uint4", 4},         Row{DataType::kInt4, "int4", 4},
};

}  // namespace

std::string_view to_string(DataType type) {
  for (const Row& row : kTypes)
    if (row.type == type) return row.name;
  return "other";
}

DataType parse_data_type(std::string_view name) {
  std::vector<std::string> known;
  for (const Row& row : kTypes) {
    if (row.name == name) return row.type;
    known.emplace_back(row.name);
  }
  throw Error(Code::kUsage, fmt::format("[type] '{}' found; one of {} expected{}", name, fmt::join(known, " "),
                                        did_you_mean(name, known)));
}

size_t element_bits(DataType type) {
  for (const Row& row : kTypes)
    if (row.type == type) return row.bits;
  // Carried along, never computed with.
  switch (static_cast<int>(type)) {
    case 14:
      return 64;  // complex64
    case 15:
      return 128;  // complex128
    case 23:
      return 4;  // float4e2m1
    case 25:     // uint2
    case 26:
      return 2;  // int2
    default:
      return 8;  // the other floats of 8 bits
  }
}

}  // namespace seqto
