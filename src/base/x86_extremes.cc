// Extremes on x86: AVX-512 or AVX2 where the machine has them.
#include "base/extremes_loop.h"

namespace seqto::internal {
namespace {

[[gnu::target("avx512f")]] void add_avx512(const float* v, size_t n, Extremes& e) { extremes_loop(v, n, e); }
[[gnu::target("avx2")]] void add_avx2(const float* v, size_t n, Extremes& e) { extremes_loop(v, n, e); }
void add_sse2(const float* v, size_t n, Extremes& e) { extremes_loop(v, n, e); }

}  // namespace

ExtremesFunction choose_extremes() {
  if (__builtin_cpu_supports("avx512f")) return add_avx512;
  return __builtin_cpu_supports("avx2") ? add_avx2 : add_sse2;
}

}  // namespace seqto::internal
