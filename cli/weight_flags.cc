#include "weight_flags.h"

#include <fmt/format.h>

#include "seqto/error.h"

namespace seqto::cli {

void add_weight_flags(Command any, WeightFlags& f) {
  const Command weights = any.under("Weights"), word = weights.in_detail();
  weights.add_option("--weight-bits", f.bits, "Of --mode weights").check_one_of({2, 4, 8}).capture_default_str();
  weights
      .add_option("--weight-block-size", f.block_size,
                  "Weights that share a scale; 0: a channel (default: 0, with 4 bits 128)")
      .check_not_negative();
  word.add_option("--int4-format", f.int4_format, "How 4-bit weights are written: matmulnbits, qdq, folded")
      .check_one_of({"matmulnbits", "qdq", "folded"})
      .capture_default_str();
  word.add_option("--accuracy-level", f.weight_only.accuracy_level,
                  "Of MatMulNBits: 0 the runtime's choice, 1 float32, 4 int8")
      .check_one_of({0, 1, 4})
      .capture_default_str();
  word.add_flag("--float16-compute", f.float16.compute, "Of float16: compute in it, not only store weights");
  word.add_flag("--float16-io", f.float16_io, "With --float16-compute: inputs and outputs become float16 too");
  word.add_option("--float16-block-ops", f.float16.op_block_list, "With --float16-compute: op types left in float")
      .delimiter(',')
      .type_name("OP");
  word.add_option("--float16-max", f.float16.max_finite_val, "Larger constants become this").capture_default_str();
  word.add_flag("--float16-strict", f.float16.strict, "A constant beyond float16's range is an error");
}

Scheme WeightFlags::apply(QuantizeOptions& options, const std::string& weight_type, bool weight_type_given) const {
  if (float16_io && !float16.compute)
    throw Error(
        Code::kUsage,
        "[quantize] --float16-io without --float16-compute found; both expected, as weights that are only stored "
        "in float16 leave inputs and outputs in float32");
  WeightOnlyOptions w = weight_only;
  int stored_bits = bits;
  bool symmetric = options.symmetric_weights.value_or(true);
  if (weight_type_given) {
    bool is_signed = weight_type[0] == 'i';
    if (weight_type == "int4" || weight_type == "uint4") stored_bits = 4;
    else if (weight_type != "int8" && weight_type != "uint8")
      throw Error(Code::kUsage, fmt::format("[quantize] --mode weights with --weight-type {} found; int8, uint8, int4 "
                                            "or uint4 expected",
                                            weight_type));
    symmetric = options.symmetric_weights.value_or(is_signed);
    options.weight_type = DataType::kInt8;  // static quantization has no say here
  }
  w.int8_symmetric = symmetric;
  // onnxruntime's 4-bit weights have zero points unless told otherwise.
  if (weight_type_given || options.symmetric_weights) w.int4_symmetric = symmetric;
  w.int4_format = parse_int4_format(int4_format);
  if (block_size >= 0) (stored_bits == 8 ? w.int8_block_size : w.int4_block_size) = block_size;
  if (stored_bits == 2) w.bits = 2;
  options.weight_only = w;
  options.float16 = float16;
  options.float16.keep_io_types = !float16_io;
  return stored_bits == 8 ? Scheme::kInt8Weights : Scheme::kInt4Weights;
}

}  // namespace seqto::cli
