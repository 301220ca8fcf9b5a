// Room: quantization/encode. The layers with weights in QOperator form.
#pragma once

#include "quantization/encode/operator_rules.h"

namespace seqto::internal {

bool encode_conv(OperatorEncoder& e, const Node& n);
bool encode_matmul(OperatorEncoder& e, const Node& n);
bool encode_gemm(OperatorEncoder& e, const Node& n);

}  // namespace seqto::internal
