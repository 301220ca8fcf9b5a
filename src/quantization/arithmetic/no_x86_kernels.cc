// Processors other than x86: the portable loops, which compilers vectorise well enough where all lanes are alike.
#include "quantization/arithmetic/kernels.h"

namespace seqto::internal {

KernelSets supported_kernels() { return {{&portable_kernels()}, 1}; }

}  // namespace seqto::internal
