#include "quantization/plan/dependence.h"

#include "quantization/plan/code_types.h"
#include "quantization/plan/layer_fields.h"

namespace seqto::internal {

std::optional<Dependence> dependence(const DetailedScheme& scheme, const QuantizeOptions& options) {
  const QuantizeOptions o = with_fields(options, scheme.scheme, scheme.fields);
  switch (scheme.scheme) {
    case Scheme::kInt8Dynamic:
      if (o.per_token) return {};
      return Dependence{"the batch, over which the scale is found", "int8_dynamic+per_token=true"};
    case Scheme::kInt8:
      if (!is_16_bits(o.activation_type)) return {};
      [[fallthrough]];
    case Scheme::kInt8wInt16a:  // weights become floats at run time, for which the kernel differs
      return Dependence{"how many rows and threads share a product", "int8 with activations of 8 bits"};
    // 2 bits and an accuracy level are of MatMulNBits alone, which has another kernel for one row.
    case Scheme::kInt4Weights:
      if (o.weight_only.bits != 2 && !scheme.fields.accuracy_level) return {};
      return Dependence{"how many rows share a product of MatMulNBits", "int4_weights"};
    case Scheme::kFloat16:
      if (!o.float16.compute) return {};
      return Dependence{"padding", "float16 without float16_compute"};
    default:
      return {};
  }
}

}  // namespace seqto::internal
