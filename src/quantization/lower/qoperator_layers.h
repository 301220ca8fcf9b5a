// Room: quantization/lower. The layers with weights in QOperator form.
#pragma once

#include "quantization/lower/operator_rules.h"

namespace seqto::internal {

bool write_quantized_conv(OperatorWriter& w, const Node& n);
bool write_quantized_matmul(OperatorWriter& w, const Node& n);
bool write_quantized_gemm(OperatorWriter& w, const Node& n);

}  // namespace seqto::internal
