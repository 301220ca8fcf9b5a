#include "quantization/plan/validate_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <unordered_set>

#include "model/graph_view.h"
#include "quantization/plan/overrides.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

void validate_qoperator(const QuantizeOptions& options) {
  if (!is_8_bits(options.activation_type) || !is_8_bits(options.weight_type))
    throw Error(Code::kUsage,
                fmt::format("[quantize] {} activations and {} weights found; QOperator form has 8-bit types "
                            "only; use --format qdq",
                            to_string(options.activation_type), to_string(options.weight_type)));
  if (!options.tensor_overrides.empty())
    throw Error(Code::kUsage,
                "[quantize] overrides of single tensors found; QOperator form takes none; use --format qdq");
}

}  // namespace

bool reads_float16(const Model& model, const QuantizeOptions& options) {
  GraphView index(model);
  const auto& types = options.op_types.empty() ? default_op_types() : options.op_types;
  std::unordered_set<std::string> op_types(types.begin(), types.end());
  auto is_float16 = [&](const std::string& name) {
    auto it = index.types.find(name);
    return it != index.types.end() && it->second == DataType::kFloat16;
  };
  return std::any_of(model.graph.nodes.begin(), model.graph.nodes.end(), [&](const Node& n) {
    return op_types.contains(n.op_type) && (std::any_of(n.inputs.begin(), n.inputs.end(), is_float16) ||
                                            std::any_of(n.outputs.begin(), n.outputs.end(), is_float16));
  });
}

void require_opset(int64_t found, const QuantizeOptions& options, bool half) {
  int64_t needed = uses_blocks(options) ? 21 : 10;
  // Q and DQ of com.microsoft have all types and axes at any opset.
  if (!in_contrib_domain(options, found)) {
    if (required_opset(options) == 13) needed = std::max<int64_t>(needed, 13);
    if (half) needed = std::max(needed, kFloat16Pairs);
  }
  if (found >= needed) return;
  throw Error(
      Code::kInvalidInput,
      fmt::format(
          "[quantize] opset {} found; {} or newer is needed for {}; run `seqto prepare --opset {}` first or export "
          "with a newer opset",
          found, needed, half && needed == kFloat16Pairs ? "float16 tensors" : "these options", needed));
}

void validate_options(const Model& model, const QuantizeOptions& options) {
  for (DataType t : {options.activation_type, options.weight_type})
    if (!is_code_type(t))
      throw Error(
          Code::kUsage,
          fmt::format("[quantize] type {} found; one of int8 uint8 int16 uint16 int4 uint4 expected", to_string(t)));
  if (options.format == QuantFormat::kQoperator) validate_qoperator(options);
  if (options.block_size < 0)
    throw Error(Code::kUsage, fmt::format("[quantize] block_size {} found; 0 or more expected", options.block_size));
  if (options.block_size > 0 && options.power_of_two_scales)
    throw Error(Code::kUsage, "[quantize] block_size with power_of_two_scales found; one of them expected");
  const float largest = QuantizeOptions().float16.max_finite_val;
  if (const float most = options.float16.max_finite_val; !(most > 0 && most <= largest))
    throw Error(Code::kUsage, fmt::format("[quantize] {} as the largest value of float16 found (--float16-max, "
                                          "max_finite_val); a number above 0, and {} at most, expected",
                                          most, largest));
  validate_overrides(model, options);
  QuantizeOptions of_all_schemes = options;
  of_all_schemes.per_channel = false;  // needs no opset of dynamic layers; quantize() asks for static ones
  require_opset(model.opset(), of_all_schemes, reads_float16(model, options));
}

void validate_low_bits(const WeightOnlyOptions& options) {
  bool power = options.int4_block_size >= 16 && std::has_single_bit(static_cast<uint64_t>(options.int4_block_size));
  if (!power && options.int4_format == Int4Format::kMatMulNBits)
    throw Error(Code::kUsage,
                fmt::format("[quantize] 4-bit block size {} found; a power of 2, 16 or more, expected, or the format "
                            "folded",
                            options.int4_block_size));
  if (options.bits != 2 && options.bits != 4 && options.bits != 8)
    throw Error(Code::kUsage, fmt::format("[quantize] {} bits found; 2, 4 or 8 expected", options.bits));
  if (options.bits == 2 && options.int4_format != Int4Format::kMatMulNBits)
    throw Error(Code::kUsage,
                fmt::format("[quantize] 2 bits in the format {} found; 4 expected, or the format matmulnbits",
                            to_string(options.int4_format)));
}

void validate_static_types(const QuantizeOptions& options) {
  if (options.activation_type == DataType::kInt8 && options.weight_type == DataType::kUint8)
    throw Error(Code::kUsage,
                "[quantize] int8 activations with uint8 weights found; no runtime has kernels for them; use "
                "int8 weights or uint8 activations");
}

}  // namespace seqto::internal
