#include "quantization/arithmetic/nbits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace seqto {
namespace {

using namespace internal;

// Repeatable, with zeros of both signs and whole blocks of them.
std::vector<float> drawn(int64_t count) {
  std::vector<float> result;
  uint32_t seed = 7;
  for (int64_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    const float x = static_cast<float>(seed >> 8) / 8388608.0f - 1.0f;
    result.push_back(seed % 11 == 0 || i % 97 < 20 ? std::copysign(0.0f, x) : x);
  }
  return result;
}

TEST(Nbits, ColumnsAreRowsOfTheTurnedMatrix) {
  for (int64_t columns : {1, 63, 65, 130})
    for (int64_t rows : {1, 7, 128, 200})
      for (int64_t block : {16, 128})
        for (bool flag : {false, true}) {
          const std::vector<float> matrix = drawn(rows * columns);
          const NbitsRule rule{
              .block_size = block, .bits = flag ? 8 : 4, .symmetric = flag, .halves = rows == 7, .round_first = flag};
          const NbitsRuns a = quantize_nbits_columns(matrix, columns, rule);
          const NbitsRuns b = quantize_nbits(transposed(std::span(matrix), rows, columns), columns, rule);
          EXPECT_EQ(a.codes, b.codes) << columns << " " << rows << " " << block;
          EXPECT_EQ(a.scale, b.scale) << columns << " " << rows << " " << block;
          EXPECT_EQ(a.zero_point, b.zero_point) << columns << " " << rows << " " << block;
        }
}

// Anywhere in a file.
TEST(Nbits, FloatsMayLieAtAnyAddress) {
  const std::vector<float> matrix = drawn(130 * 70);
  std::vector<char> bytes(matrix.size() * sizeof(float) + 1);
  std::memcpy(bytes.data() + 1, matrix.data(), matrix.size() * sizeof(float));
  const Floats odd(reinterpret_cast<const FileFloat*>(bytes.data() + 1), matrix.size());
  const NbitsRule rule{.block_size = 32};
  EXPECT_EQ(quantize_nbits_columns(odd, 70, rule).codes, quantize_nbits_columns(matrix, 70, rule).codes);
  EXPECT_EQ(quantize_nbits(odd, 130, rule).codes, quantize_nbits(matrix, 130, rule).codes);
  EXPECT_EQ(quantize_gather(odd, 130, rule).codes, quantize_gather(matrix, 130, rule).codes);
}

}  // namespace
}  // namespace seqto
