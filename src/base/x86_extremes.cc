// Extremes on x86: AVX-512 or AVX2 where the machine has them.
#include "base/extremes_loop.h"

namespace seqto::internal {
namespace {

[[gnu::target("avx512f")]] void add_avx512(const float* v, size_t n, Extremes& e) { extremes_loop(v, n, e); }
[[gnu::target("avx2")]] void add_avx2(const float* v, size_t n, Extremes& e) { extremes_loop(v, n, e); }
void add_sse2(const float* v, size_t n, Extremes& e) { extremes_loop(v, n, e); }

[[gnu::target("avx512f")]] void clip_avx512(const float* in, size_t n, float low, float high, float* out) {
  clip_loop(in, n, low, high, out);
}
[[gnu::target("avx2")]] void clip_avx2(const float* in, size_t n, float low, float high, float* out) {
  clip_loop(in, n, low, high, out);
}
void clip_sse2(const float* in, size_t n, float low, float high, float* out) { clip_loop(in, n, low, high, out); }

[[gnu::target("avx512f")]] void magnitude_avx512(const float* v, size_t n, uint32_t& smallest) {
  magnitude_loop(v, n, smallest);
}
[[gnu::target("avx2")]] void magnitude_avx2(const float* v, size_t n, uint32_t& smallest) {
  magnitude_loop(v, n, smallest);
}
void magnitude_sse2(const float* v, size_t n, uint32_t& smallest) { magnitude_loop(v, n, smallest); }

}  // namespace

RangeFunctions choose_range_functions() {
  if (__builtin_cpu_supports("avx512f")) return {add_avx512, clip_avx512, magnitude_avx512};
  if (__builtin_cpu_supports("avx2")) return {add_avx2, clip_avx2, magnitude_avx2};
  return {add_sse2, clip_sse2, magnitude_sse2};
}

}  // namespace seqto::internal
