#include "quantization/read/malformed.h"

#include <fmt/format.h>

#include "model/op_traits.h"
#include "model/type_variables.h"
#include "quantization/plan/overrides.h"

namespace seqto::internal {

std::string malformed(const Node& node, const GraphView& view) {
  if (std::string why = type_refusal(node, view.opset, view.types); !why.empty()) return why;
  if (!has(node, kPair) || node.inputs.size() < 2) return {};
  const Tensor *codes = view.constant(node.inputs[0]), *scale = view.constant(node.inputs[1]);
  if (!codes || !scale || scale->dims().size() != 1 || scale->dims()[0] == 1) return {};
  const auto axis = normalized_axis(node.int_attribute("axis", 1), codes->dims().size());
  const int64_t channels = axis ? codes->dims()[static_cast<size_t>(*axis)] : 0;
  return channels == scale->dims()[0]
             ? ""
             : fmt::format("{} scales for the {} channels of '{}' found", scale->dims()[0], channels, node.inputs[0]);
}

}  // namespace seqto::internal
