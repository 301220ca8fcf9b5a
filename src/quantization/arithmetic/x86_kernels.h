// Room: quantization/arithmetic. The vector kernels of x86 processors; to be run only where the processor has the
// instructions.
#pragma once

#include "quantization/arithmetic/kernels.h"

namespace seqto::internal {

const Kernels& avx2_kernels();
const Kernels& avx512_kernels();

}  // namespace seqto::internal
