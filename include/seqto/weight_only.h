// Room: quantization. Schemes that change how weights are stored and leave activations exact; and float16.
//
// docs/schemes.md shows what each writes into the model and what it costs at run time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace seqto {

// How 4-bit weights are written.
enum class Int4Format {
  kMatMulNBits,  // com.microsoft operators where they exist (MatMul, Gemm, Gather), else folded
  kQdq,          // DequantizeLinear with block_size, opset 21 (MatMul, Gemm), else folded
  kFolded,       // ordinary operators on packed bytes, which the runtime folds to a float weight when it loads
};
std::string_view to_string(Int4Format format);        // "matmulnbits", "qdq", "folded"
Int4Format parse_int4_format(std::string_view name);  // throws Error{kUsage}

// Of the schemes int8_weights and int4_weights.
struct WeightOnlyOptions {
  // int8_weights: weights that share a scale within a channel; 0: the whole channel.
  int64_t int8_block_size = 0;
  bool int8_symmetric = true;  // else uint8 with a zero point

  // int4_weights. MatMulNBits wants a power of 2, at least 16.
  int64_t int4_block_size = 128;
  bool int4_symmetric = false;
  Int4Format int4_format = Int4Format::kMatMulNBits;
  int bits = 4;  // of MatMulNBits: 2, 4 or 8; every other form is written with 4
  // Of MatMulNBits: 0 lets the runtime choose, 1 computes in float32, 4 in int8 (faster, activations are rounded).
  int accuracy_level = 0;
};

// Of the scheme float16.
struct Float16Options {
  // Compute in float16, with a Cast where a tensor changes its type; else only store weights in it.
  bool compute = false;
  // With compute: graph inputs and outputs stay float.
  bool keep_io_types = true;
  // With compute: op types that stay in float. Large sums and indices lose their meaning in float16.
  std::vector<std::string> op_block_list = {"CumSum", "Range", "Resize", "RoiAlign", "TopK", "Upsample"};
  // Finite values beyond this become it; infinities stay. With `strict` such a value is an error.
  float max_finite_val = 65504.0f;
  // With compute: nonzero constants smaller than this become it, so that an epsilon does not vanish.
  float min_positive_val = 0x1p-24f;
  bool strict = false;
};

}  // namespace seqto
