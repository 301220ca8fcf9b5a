// Room: quantization/arithmetic. The loops over weights: range and rounding, portable and with vector instructions.
//
// Every set gives the same bits: a float32 division (never a multiplication by the reciprocal), rounding half to even,
// a clamp; NaN gives code 0, and is passed over by the range. The only header that vector code includes, so that no
// inline function of the standard library is ever compiled for a processor that may be absent.
#pragma once

#include <cstddef>
#include <cstdint>

namespace seqto::internal {

// A float at any address: that is where a file may hold its weights.
using FileFloat [[gnu::aligned(1)]] = float;

// code = clamp(round(x / scale) + zero_point, lowest, highest), stored in the low 8 or 16 bits.
struct CodeRange {
  int32_t lowest = -128, highest = 127;
};

// code = round(clamp(x * reciprocal + zero_point, 0, highest)), halves rounded away from zero; with `round_first` the
// product is rounded, before the zero point is added.
struct BlockRounding {
  float highest = 15;
  bool round_first = false;
};

struct Kernels {
  const char* name;  // "portable", "avx2", "avx512"

  // Widens [*low, *high] by n values.
  void (*min_max)(const FileFloat* in, size_t n, float* low, float* high);
  // The same, with a range of its own for each of the n columns.
  void (*min_max_columns)(const FileFloat* in, size_t n, float* low, float* high);

  // One scale for all n values.
  void (*quantize8)(const FileFloat* in, uint8_t* out, size_t n, float scale, int32_t zero_point, CodeRange range);
  void (*quantize16)(const FileFloat* in, uint16_t* out, size_t n, float scale, int32_t zero_point, CodeRange range);
  // A scale and zero point for each of the n columns.
  void (*quantize_columns8)(const FileFloat* in, uint8_t* out, size_t n, const float* scale, const int32_t* zero_point,
                            CodeRange range);
  void (*quantize_columns16)(const FileFloat* in, uint16_t* out, size_t n, const float* scale,
                             const int32_t* zero_point, CodeRange range);

  // The codes of one block of MatMulNBits, and of a row of n columns with parameters of their own.
  void (*quantize_block)(const FileFloat* in, uint8_t* out, size_t n, float reciprocal, float zero_point,
                         BlockRounding rounding);
  void (*quantize_block_columns)(const FileFloat* in, uint8_t* out, size_t n, const float* reciprocal,
                                 const float* zero_point, BlockRounding rounding);
};

const Kernels& portable_kernels();

// Every set that this processor can run, the fastest first; the portable one is always the last.
struct KernelSets {
  const Kernels* sets[3];
  size_t count;
};
KernelSets supported_kernels();

}  // namespace seqto::internal
