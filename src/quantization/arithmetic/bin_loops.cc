#include "quantization/arithmetic/bin_loops.h"

namespace seqto::internal {
namespace {

void even(const float* v, size_t n, EvenBins bins, int32_t* out) { even_loop(v, n, bins, out); }
void clipped(const float* v, size_t n, const ClippedBins& bins, int32_t* out) { clipped_loop(v, n, bins, out); }
bool fixed(const float* v, size_t n, const FixedBins& bins, int32_t* out, float* beyond) {
  return fixed_or_magnitudes_loop(v, n, bins, out, beyond);
}

}  // namespace

const BinFunctions& portable_bin_functions() {
  static constexpr BinFunctions functions{even, clipped, fixed};
  return functions;
}

}  // namespace seqto::internal
