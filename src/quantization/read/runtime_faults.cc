#include "quantization/read/runtime_faults.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "model/op_traits.h"
#include "quantization/plan/code_types.h"

namespace seqto::internal {
namespace {

bool has_scales(const Codes& codes) { return codes.scale && codes.scale->element_count() > 1; }

// A QLinearMatMul has scales for the last axis of its second input alone.
std::string fault_of_product(const Node& node, const Surroundings& around) {
  for (size_t i = 0; i < 2; ++i) {
    const auto found = around.read(node.inputs[i]);
    const auto* dims = around.pairs.dims(node.inputs[i]);
    if (!found || !dims || !found->scale || found->scale->dims().size() != 1 || found->scale->dims()[0] == 1) continue;
    const int64_t axis = found->node->int_attribute("axis", 1), last = std::ssize(*dims) - 1;
    if (i == 0 || (axis != last && axis != -1)) return "a product's scales along another axis than its outputs found";
  }
  return {};
}

// A QLinearConv has one scale or one for each output, and no codes of 4 bits. As many scales as outputs are taken for
// theirs, along whichever axis they lie.
std::string fault_of_convolution(const Node& node, const Surroundings& around, bool in_integers) {
  const auto input = around.read(node.inputs[0]), weight = around.read(node.inputs[1]);
  const auto output = around.written(node.outputs[0]);
  if (!input || !weight) return {};
  const auto* dims = around.pairs.dims(node.inputs[1]);
  if (in_integers && has_scales(*weight) && dims && !dims->empty() && weight->scale->element_count() != dims->front())
    return "scales along another axis than the outputs found";
  const bool has_bias = node.inputs.size() > 2 && !node.inputs[2].empty();
  const auto bias = has_bias ? around.read(node.inputs[2]) : std::nullopt;
  const bool fits = !has_bias || (bias && bias->type == DataType::kInt32);
  return output && fits && is_4_bits(input->type) && output->type == input->type && !is_4_bits(weight->type)
             ? "a convolution between codes of 4 bits found"
             : "";
}

// QLinearAdd and QLinearMul have one scale for each tensor.
std::string fault_of_elementwise(const Node& node, const Surroundings& around) {
  const auto first = around.read(node.inputs[0]), second = around.read(node.inputs[1]);
  const auto output = around.written(node.outputs[0]);
  if (!first || !second || !output || first->type != second->type || first->type != output->type) return {};
  return has_scales(*first) || has_scales(*second) ? "a scale for each channel of a sum or product of two tensors found"
                                                   : "";
}

// Constant bounds that it would take into a QuantizeLinear of 4 bits, of what a node makes.
std::string fault_of_clip(const Node& node, const Surroundings& around) {
  const Node* reader = around.view.edges.only_reader(node.outputs[0]);
  const auto output = reader && is_quantize(*reader) ? around.written(node.outputs[0]) : std::nullopt;
  const bool constant = std::all_of(node.inputs.begin() + 1, node.inputs.end(), [&](const std::string& bound) {
    return bound.empty() || around.view.constant(bound);
  });
  const bool behind = around.view.edges.producer(node.inputs[0]) != nullptr;
  return output && behind && constant && is_4_bits(output->type) ? "a Clip in front of codes of 4 bits found" : "";
}

}  // namespace

std::string fault_of(const Node& layer, const Surroundings& around, bool in_integers) {
  if (!layer.domain.empty() || layer.inputs.empty() || layer.outputs.empty()) return {};
  if (is_clip(layer)) return fault_of_clip(layer, around);
  if (layer.inputs.size() < 2) return {};
  if (is_matmul(layer)) return in_integers ? fault_of_product(layer, around) : "";
  if (is_conv(layer)) return fault_of_convolution(layer, around, in_integers);
  return is_add(layer) || is_mul(layer) ? fault_of_elementwise(layer, around) : "";
}

std::string fault_of_blocks(const Node& node, const GraphView& view, const Target& target) {
  const auto taken = target.operator_codes.find(node.op_type);
  const size_t weight = is_nbits(node) ? 1 : 0;
  if (taken == target.operator_codes.end() || node.inputs.size() <= weight) return {};
  const auto type = view.types.find(node.inputs[weight]);
  if (type == view.types.end()) return {};
  std::string found(to_string(type->second));
  if (type->second == DataType::kUint8) found += fmt::format(":{}", node.int_attribute("bits", 4));
  if (std::ranges::count(taken->second, found) > 0) return {};
  return fmt::format("a weight of {} found; {} taken (--int4-format folded)", found, fmt::join(taken->second, ", "));
}

std::string fault_of_moved_pair(const Node& mover, const Surroundings& around, const Model& file,
                                const GraphView& view) {
  constexpr int64_t kFromOpset = 21;  // QuantizeLinear says its type there, which is then left as it was
  if (view.opset < kFromOpset || mover.inputs.empty() || mover.outputs.empty()) return {};
  const Node* before = around.view.edges.producer(mover.inputs[0]);
  const Node* behind = around.view.edges.only_reader(mover.outputs[0]);
  if (!before || !is_dequantize(*before) || !behind || !is_quantize(*behind)) return {};
  const auto codes = around.read(mover.inputs[0]), moved = around.written(mover.outputs[0]);
  if (!codes || !moved || moved->type != DataType::kUint8) return {};
  const auto& nodes = file.graph.nodes;
  const auto own = std::ranges::find_if(nodes, [&](const Node& n) {
    return is_dequantize(n) && std::ranges::count(around.pairs.now(n.name), before->name) > 0;
  });
  if (own == nodes.end()) return {};
  const auto type = view.types.find(own->inputs[0]);
  const auto& readers = view.edges.readers(mover.outputs[0]);
  const bool inserted = std::ranges::none_of(readers, [&](const Node* n) { return n->name == behind->name; });
  return inserted && type != view.types.end() && type->second == DataType::kInt8
             ? "int8 codes that the runtime moves behind it and makes uint8 found; uint8 activations, or an opset "
               "below "
               "21, keep the file loadable"
             : "";
}

}  // namespace seqto::internal
