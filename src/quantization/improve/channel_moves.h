// Room: quantization/improve. Where the channels of a tensor come from that only moves the values of others: Concat,
// Split, Slice, Pad with zeros, a channel shuffle of Reshape and Transpose, Flatten ...
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "model/graph_view.h"
#include "quantization/calibration/channel_means.h"

namespace seqto::internal {

// The channel (axis 1) of a tensor that is computed; an empty name: always zero.
struct ChannelOrigin {
  std::string tensor;
  size_t channel = 0;
};

struct ChannelMoves {
  std::unordered_set<const Node*> nodes;  // that move values and do nothing else
  std::unordered_set<std::string> moved;  // what they write
  // Of moved tensors whose channels hold the values of one channel each, zeros beside them.
  std::unordered_map<std::string, std::vector<ChannelOrigin>> origins;
  // Computed tensors whose channels are mixed in a tensor that anything but another move reads.
  std::unordered_set<std::string> mixed;
};

// Found by running the moves, in the model, on tensors that hold the number of their channel: one pass over the sample.
// Operators whose indices or shapes depend on the values are no moves.
// The pointers are into `model`.
ChannelMoves trace_channel_moves(const Model& model, const GraphView& index, const SampleRun& on);

// Adds `written` to the graph: `given` with these numbers in place of its values, broadcast to its shape.
void add_numbered(Graph& graph, const std::string& given, Tensor numbers, const std::string& written);

// The number of channels of a tensor of rank 2 or more; nothing where it is not known. The references are into `model`.
class ChannelShapes {
 public:
  explicit ChannelShapes(const Model& model);
  struct Shape {
    size_t rank = 0, channels = 0;
  };
  std::optional<Shape> of(const std::string& tensor) const;

 private:
  std::unordered_map<std::string, Shape> shapes_;
};

}  // namespace seqto::internal
