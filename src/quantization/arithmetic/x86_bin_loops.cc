// The loops of histograms on x86: AVX-512 or AVX2 where the processor has them.
#include "quantization/arithmetic/bin_loops.h"

namespace seqto::internal {
namespace {

[[gnu::target("avx2")]] void even_avx2(const float* v, size_t n, EvenBins bins, int32_t* out) {
  even_loop(v, n, bins, out);
}
[[gnu::target("avx2")]] void clipped_avx2(const float* v, size_t n, const ClippedBins& bins, int32_t* out) {
  clipped_loop(v, n, bins, out);
}
[[gnu::target("avx2")]] bool fixed_avx2(const float* v, size_t n, const FixedBins& bins, int32_t* out, float* beyond) {
  return fixed_or_magnitudes_loop(v, n, bins, out, beyond);
}

[[gnu::target("avx512f")]] void even_avx512(const float* v, size_t n, EvenBins bins, int32_t* out) {
  even_loop(v, n, bins, out);
}
[[gnu::target("avx512f")]] void clipped_avx512(const float* v, size_t n, const ClippedBins& bins, int32_t* out) {
  clipped_loop(v, n, bins, out);
}
[[gnu::target("avx512f")]] bool fixed_avx512(const float* v, size_t n, const FixedBins& bins, int32_t* out,
                                             float* beyond) {
  return fixed_or_magnitudes_loop(v, n, bins, out, beyond);
}

const BinFunctions& choose() {
  static constexpr BinFunctions avx2{even_avx2, clipped_avx2, fixed_avx2};
  static constexpr BinFunctions avx512{even_avx512, clipped_avx512, fixed_avx512};
  if (__builtin_cpu_supports("avx512f")) return avx512;
  if (__builtin_cpu_supports("avx2")) return avx2;
  return portable_bin_functions();
}

}  // namespace

const BinFunctions& bin_functions() {
  static const BinFunctions& functions = choose();
  return functions;
}

}  // namespace seqto::internal
