// Eight values at a time.
#include <immintrin.h>

#include "quantization/arithmetic/kernel_loops.h"
#include "quantization/arithmetic/x86_kernels.h"

namespace seqto::internal {
namespace {

struct Avx2 {
  using Floats = __m256;
  using Ints = __m256i;
  static constexpr size_t kLanes = 8;

  static Floats all(float x) { return _mm256_set1_ps(x); }
  static Ints all(int32_t x) { return _mm256_set1_epi32(x); }
  static Floats load(const FileFloat* from) { return _mm256_loadu_ps(reinterpret_cast<const float*>(from)); }
  static Ints load(const int32_t* from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); }
  static void store(float* to, Floats x) { _mm256_storeu_ps(to, x); }
  // The instruction returns the second operand where one is NaN.
  static Floats min(Floats x, Floats otherwise) { return _mm256_min_ps(x, otherwise); }
  static Floats max(Floats x, Floats otherwise) { return _mm256_max_ps(x, otherwise); }
  static Floats difference(Ints a, Ints b) { return _mm256_cvtepi32_ps(_mm256_sub_epi32(a, b)); }

  static Floats floats(Ints a) { return _mm256_cvtepi32_ps(a); }
  static Floats product(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  static Floats sum(Floats a, Floats b) { return _mm256_add_ps(a, b); }
  static Floats magnitude(Floats x) { return _mm256_andnot_ps(all(-0.0f), x); }
  static Floats with_sign(Floats magnitude, Floats x) { return _mm256_or_ps(magnitude, _mm256_and_ps(x, all(-0.0f))); }
  static Ints rounded(Floats magnitude) {
    const Ints whole = _mm256_cvttps_epi32(magnitude);
    const Floats up = _mm256_cmp_ps(_mm256_sub_ps(magnitude, floats(whole)), all(0.5f), _CMP_GE_OQ);
    return _mm256_sub_epi32(whole, _mm256_castps_si256(up));  // true is -1
  }

  static Ints code(Floats x, Floats scale, Ints zero_point, Floats low, Floats high) {
    x = _mm256_div_ps(x, scale);
    Ints number = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_ORD_Q));
    x = _mm256_min_ps(_mm256_max_ps(x, low), high);
    return _mm256_and_si256(number, _mm256_add_epi32(_mm256_cvtps_epi32(x), zero_point));
  }

  // Packing works within halves of 128 bits; the permutation puts the pieces in order.
  static void store(uint8_t* to, const Ints* four) {
    Ints mask = _mm256_set1_epi32(0xff);
    Ints ab = _mm256_packus_epi32(_mm256_and_si256(four[0], mask), _mm256_and_si256(four[1], mask));
    Ints cd = _mm256_packus_epi32(_mm256_and_si256(four[2], mask), _mm256_and_si256(four[3], mask));
    Ints bytes = _mm256_packus_epi16(ab, cd);
    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), bytes);
  }
  static void store(uint16_t* to, const Ints* four) {
    Ints mask = _mm256_set1_epi32(0xffff);
    for (int k = 0; k < 4; k += 2) {
      Ints pair = _mm256_packus_epi32(_mm256_and_si256(four[k], mask), _mm256_and_si256(four[k + 1], mask));
      pair = _mm256_permute4x64_epi64(pair, 0b11011000);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 8 * k), pair);
    }
  }
};

}  // namespace

const Kernels& avx2_kernels() {
  static const Kernels kernels = make_kernels<Avx2>("avx2");
  return kernels;
}

}  // namespace seqto::internal
