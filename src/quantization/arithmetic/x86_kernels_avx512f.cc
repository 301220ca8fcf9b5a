// Sixteen values at a time.
#include <immintrin.h>

#include "quantization/arithmetic/kernel_loops.h"
#include "quantization/arithmetic/x86_kernels.h"

namespace seqto::internal {
namespace {

struct Avx512 {
  using Floats = __m512;
  using Ints = __m512i;
  static constexpr size_t kLanes = 16;

  static Floats all(float x) { return _mm512_set1_ps(x); }
  static Ints all(int32_t x) { return _mm512_set1_epi32(x); }
  static Floats load(const FileFloat* from) { return _mm512_loadu_ps(from); }
  static Ints load(const int32_t* from) { return _mm512_loadu_si512(from); }
  static void store(float* to, Floats x) { _mm512_storeu_ps(to, x); }
  // The instruction returns the second operand where one is NaN.
  static Floats min(Floats x, Floats otherwise) { return _mm512_min_ps(x, otherwise); }
  static Floats max(Floats x, Floats otherwise) { return _mm512_max_ps(x, otherwise); }
  static Floats difference(Ints a, Ints b) { return _mm512_cvtepi32_ps(_mm512_sub_epi32(a, b)); }

  static Floats floats(Ints a) { return _mm512_cvtepi32_ps(a); }
  static Floats product(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  static Floats sum(Floats a, Floats b) { return _mm512_add_ps(a, b); }
  static Floats magnitude(Floats x) { return _mm512_abs_ps(x); }
  static Floats with_sign(Floats magnitude, Floats x) {
    const Ints sign = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(INT32_MIN));
    return _mm512_castsi512_ps(_mm512_or_si512(_mm512_castps_si512(magnitude), sign));
  }
  static Ints rounded(Floats magnitude) {
    const Ints whole = _mm512_cvttps_epi32(magnitude);
    const Floats rest = _mm512_sub_ps(magnitude, floats(whole));
    const __mmask16 up = _mm512_cmp_ps_mask(rest, all(0.5f), _CMP_GE_OQ);
    return _mm512_mask_add_epi32(whole, up, whole, all(1));
  }

  static Ints code(Floats x, Floats scale, Ints zero_point, Floats low, Floats high) {
    x = _mm512_div_ps(x, scale);
    __mmask16 number = _mm512_cmp_ps_mask(x, x, _CMP_ORD_Q);
    x = _mm512_min_ps(_mm512_max_ps(x, low), high);
    return _mm512_maskz_add_epi32(number, _mm512_cvtps_epi32(x), zero_point);
  }

  static void store(uint8_t* to, const Ints* four) {
    for (int k = 0; k < 4; ++k)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 16 * k), _mm512_cvtepi32_epi8(four[k]));
  }
  static void store(uint16_t* to, const Ints* four) {
    for (int k = 0; k < 4; ++k)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 16 * k), _mm512_cvtepi32_epi16(four[k]));
  }
};

}  // namespace

const Kernels& avx512_kernels() {
  static const Kernels kernels = make_kernels<Avx512>("avx512");
  return kernels;
}

}  // namespace seqto::internal
