// Room: quantization/plan. Whether a sample's answer depends on what it is computed with.
#pragma once

#include <optional>

#include "seqto/quantize.h"

namespace seqto::internal {

// What a sample's answer in a scheme depends on besides the sample.
struct Dependence {
  const char* on = nullptr;
  const char* instead = nullptr;  // a scheme without it
};
// On ONNX Runtime's CPU kernels; none where it depends on nothing that the float model's does not. 4-bit weights are
// taken as written folded. docs/reference/validate.md has the table.
std::optional<Dependence> dependence(const DetailedScheme& scheme, const QuantizeOptions& options);

}  // namespace seqto::internal
