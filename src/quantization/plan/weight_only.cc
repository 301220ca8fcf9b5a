#include "seqto/plan.h"

#include <fmt/format.h>

#include "seqto/error.h"

namespace seqto {

std::string_view to_string(Int4Format format) {
  switch (format) {
    case Int4Format::kMatMulNBits:
      return "matmulnbits";
    case Int4Format::kQdq:
      return "qdq";
    case Int4Format::kFolded:
      return "folded";
  }
  return "?";
}

Int4Format parse_int4_format(std::string_view name) {
  for (Int4Format f : {Int4Format::kMatMulNBits, Int4Format::kQdq, Int4Format::kFolded})
    if (to_string(f) == name) return f;
  throw Error(Code::kUsage,
              fmt::format("[quantize] 4-bit format '{}' found; matmulnbits, qdq or folded expected", name));
}

}  // namespace seqto
