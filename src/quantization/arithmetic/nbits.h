// Room: quantization/arithmetic. Weights in blocks of 2, 4 or 8 bits, with the numbers of onnxruntime's MatMulNBits
// quantizer: multiplied by the reciprocal of the scale and halves rounded away from zero, unlike 8-bit weights
// elsewhere.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "quantization/arithmetic/channels.h"

namespace seqto::internal {

// Runs of numbers, each cut into blocks that have a scale; the last block of a run may be short.
struct NbitsRuns {
  int64_t runs = 0, blocks = 0, block_size = 0;
  std::vector<uint8_t>
      codes;                 // [runs, blocks * block_size], one byte each; 0 past a run's end; of gather [runs, length]
  std::vector<float> scale;  // [runs, blocks]
  std::vector<uint8_t> zero_point;  // [runs, blocks]; the middle of the range when symmetric
};
struct NbitsRule {
  int64_t block_size = 0;
  int bits = 4;
  bool symmetric = false;
  bool halves = false;  // the weight is in float16, and so are the scales that are written
  // Round before the zero point is added, as onnxruntime does for DequantizeLinear with blocks.
  bool round_first = false;
};
NbitsRuns quantize_nbits(Floats values, int64_t runs, const NbitsRule& rule);
// The runs are the columns of a matrix.
NbitsRuns quantize_nbits_columns(Floats matrix, int64_t columns, const NbitsRule& rule);
// The same with the numbers of onnxruntime's GatherBlockQuantized: divided, rounded half to even; of halves each step
// is a half.
NbitsRuns quantize_gather(Floats values, int64_t runs, const NbitsRule& rule);

// `rows` rows of equal length, each packed into whole bytes, low bits first; `fill` where a row ends inside a byte.
std::vector<uint8_t> pack_bits(std::span<const uint8_t> codes, int64_t rows, int bits, uint8_t fill = 0);

// [rows, columns] to [columns, rows].
template <class T>
std::vector<T> transposed(std::span<const T> matrix, int64_t rows, int64_t columns) {
  constexpr int64_t kTile = 32;  // both sides of a tile stay in the first cache
  std::vector<T> result(matrix.size());
  for (int64_t r0 = 0; r0 < rows; r0 += kTile)
    for (int64_t c0 = 0; c0 < columns; c0 += kTile)
      for (int64_t c = c0; c < columns && c < c0 + kTile; ++c)
        for (int64_t r = r0; r < rows && r < r0 + kTile; ++r)
          result[static_cast<size_t>(c * rows + r)] = matrix[static_cast<size_t>(r * columns + c)];
  return result;
}

}  // namespace seqto::internal
