// Room: quantization/improve. Activations that can be divided by channel while the layers that read them are
// multiplied.
#pragma once

#include <string>
#include <vector>

#include "model/graph_view.h"

namespace seqto::internal {

// A constant input of a node, and its axis of channels.
struct ChannelConstant {
  size_t node = 0, input = 1, axis = 0;
};

// The MatMul and Gemm layers that read one activation, channels last.
struct SmoothGroup {
  std::string tensor;
  int64_t channels = 0;
  std::vector<ChannelConstant> readers;  // their weights
  // The constants that divide the activation's channels when they are divided: where it comes from, or behind that.
  // Empty where no constant can take the division up.
  std::vector<ChannelConstant> folds;
};

// The groups in graph order. Outputs of `quantized_ops` will be quantized: such a Relu is not passed, since its input
// would be too, with negative values that its output does not show. Weights that anything else reads, or that are
// inputs of the model, are in no group.
std::vector<SmoothGroup> find_smooth_groups(const Model& model, const GraphView& view,
                                            const std::vector<std::string>& quantized_ops);

}  // namespace seqto::internal
