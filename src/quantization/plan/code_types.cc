#include "quantization/plan/code_types.h"

#include <fmt/format.h>

#include "seqto/error.h"

namespace seqto::internal {

bool is_code_type(DataType type) {
  switch (type) {
    case DataType::kInt4:
    case DataType::kUint4:
    case DataType::kInt8:
    case DataType::kUint8:
    case DataType::kInt16:
    case DataType::kUint16:
      return true;
    default:
      return false;
  }
}

bool is_4_bits(DataType t) { return t == DataType::kInt4 || t == DataType::kUint4; }
bool is_8_bits(DataType t) { return t == DataType::kInt8 || t == DataType::kUint8; }

QuantLimits quant_limits(DataType type, bool reduce_range, bool symmetric) {
  // type -> full, symmetric, reduced; the odd ones (int4's symmetric, int8's reduced) are onnxruntime's.
  switch (type) {
    case DataType::kInt8:
      return reduce_range ? QuantLimits{-64, 64} : symmetric ? QuantLimits{-127, 127} : QuantLimits{-128, 127};
    case DataType::kUint8:
      return reduce_range ? QuantLimits{0, 127} : QuantLimits{0, 255};
    case DataType::kInt16:
      return reduce_range ? QuantLimits{-16384, 16384}
             : symmetric  ? QuantLimits{-32767, 32767}
                          : QuantLimits{-32768, 32767};
    case DataType::kUint16:
      return reduce_range ? QuantLimits{0, 32767} : QuantLimits{0, 65535};
    case DataType::kInt4:
      return reduce_range ? QuantLimits{-4, 3} : QuantLimits{-8, 7};
    case DataType::kUint4:
      return reduce_range ? QuantLimits{0, 7} : QuantLimits{0, 15};
    default:
      throw Error(Code::kInvalidInput,
                  fmt::format("[quantize] codes of type {} found; whole numbers of 4, 8 or 16 bits expected; other "
                              "quantized models cannot be read",
                              to_string(type)));
  }
}

}  // namespace seqto::internal
