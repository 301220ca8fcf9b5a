// Room: quantization/improve. Activations that can be divided by channel while the layers that read them are
// multiplied.
#pragma once

#include <string>
#include <vector>

#include "model/graph_view.h"
#include "seqto/runner.h"

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
  // Where the division goes through a gate or an attention: the tensor above that, which it divides too.
  std::string source;
  int64_t source_channels = 0;
  bool moved = false;         // axes are, between the two
  std::vector<size_t> slots;  // by channel, the source's that it is; empty: the same (find_slots)
};

// The groups in graph order. Outputs of `quantized_ops` will be quantized: such a Relu is not passed, since its input
// would be too, with negative values that its output does not show. Weights that anything else reads, or that are
// inputs of the model, are in no group.
// With `through_products` a division also passes the product of two activations into one of them: what a gate lets
// through, the values of an attention. For factors that reckon with the source, which a static model rounds too.
std::vector<SmoothGroup> find_smooth_groups(const Model& model, const GraphView& view,
                                            const std::vector<std::string>& quantized_ops,
                                            bool through_products = false);

// The slots of groups whose axes are moved, found by one sample: the source's channels are numbered, and an attention's
// weights, whose sum is 1, give the numbers on. Groups with a channel that is none of the source's are removed.
void find_slots(const Model& model, std::vector<SmoothGroup>& groups, const SampleRun& on);

}  // namespace seqto::internal
