// Room: quantization/improve. Biases of layers in QOperator form: int32 codes in steps of input scale times weight
// scale.
#pragma once

#include "seqto/improve.h"

namespace seqto::internal {

// As shift_biases(), for QLinearConv and QGemm alone: the codes that their QDQ form would get. The nodes' order stays.
void shift_operator_biases(Model& quantized, const BiasShifts& shifts);

}  // namespace seqto::internal
