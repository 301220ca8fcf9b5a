// The loops of histograms on other processors: whatever the compiler makes of them.
#include "quantization/arithmetic/bin_loops.h"

namespace seqto::internal {

const BinFunctions& bin_functions() { return portable_bin_functions(); }

}  // namespace seqto::internal
