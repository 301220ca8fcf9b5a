// Which kernels this x86 processor can run.
#include "quantization/arithmetic/x86_kernels.h"

namespace seqto::internal {

KernelSets supported_kernels() {
  KernelSets all{};
  if (__builtin_cpu_supports("avx512f")) all.sets[all.count++] = &avx512_kernels();
  if (__builtin_cpu_supports("avx2")) all.sets[all.count++] = &avx2_kernels();
  all.sets[all.count++] = &portable_kernels();
  return all;
}

}  // namespace seqto::internal
