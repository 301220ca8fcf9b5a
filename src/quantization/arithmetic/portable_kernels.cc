// The kernels in plain C++: the definition of the bits, and what runs where no vector set fits the processor.
#include "quantization/arithmetic/kernel_loops.h"

namespace seqto::internal {
namespace {

struct Plain {
  using Floats = float;
  using Ints = int32_t;
  static constexpr size_t kLanes = 1;

  static Floats all(float x) { return x; }
  static Ints all(int32_t x) { return x; }
  static Floats load(const FileFloat* from) { return *from; }
  static Ints load(const int32_t* from) { return *from; }
  static void store(float* to, Floats x) { *to = x; }
  static Floats min(Floats x, Floats otherwise) { return x < otherwise ? x : otherwise; }
  static Floats max(Floats x, Floats otherwise) { return x > otherwise ? x : otherwise; }
  static Floats difference(Ints a, Ints b) { return static_cast<float>(a - b); }
  static Floats floats(Ints a) { return static_cast<float>(a); }
  static Floats product(Floats a, Floats b) { return a * b; }
  static Floats sum(Floats a, Floats b) { return a + b; }
  static Floats magnitude(Floats x) { return __builtin_fabsf(x); }
  static Floats with_sign(Floats magnitude, Floats x) { return __builtin_copysignf(magnitude, x); }
  static Ints rounded(Floats magnitude) { return internal::rounded(magnitude); }
  static Ints code(Floats x, Floats scale, Ints zero_point, Floats low, Floats high) {
    return one_code(x, scale, zero_point, low, high);
  }
  template <class T>
  static void store(T* to, const Ints* four) {
    for (int k = 0; k < 4; ++k) to[k] = static_cast<T>(four[k]);
  }
};

}  // namespace

const Kernels& portable_kernels() {
  static const Kernels kernels = make_kernels<Plain>("portable");
  return kernels;
}

}  // namespace seqto::internal
