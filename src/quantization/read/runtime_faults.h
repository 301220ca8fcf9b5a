// Room: quantization/read. What ONNX Runtime makes of a valid file and then refuses, when it loads the file or runs it.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "model/graph_view.h"
#include "quantization/read/settled_pairs.h"
#include "seqto/target.h"

namespace seqto::internal {

// A tensor's codes: what a DequantizeLinear or QuantizeLinear says of them.
struct Codes {
  const Node* node = nullptr;  // that says it
  DataType type = DataType::kUndefined;
  const Tensor *scale = nullptr, *zero_point = nullptr;  // null: computed, or not given
  bool constant = false;                                 // the codes lie in the file
};

// The graph with settled pairs, and what stands around its tensors.
struct Surroundings {
  const GraphView& view;
  const SettledPairs& pairs;
  std::function<std::optional<Codes>(const std::string&)> read, written;
};

// What is found that ends it; empty: nothing. `in_integers`: the target takes the layer so.
std::string fault_of(const Node& layer, const Surroundings& around, bool in_integers);

// Of an operator on codes in blocks: weights that the target's release does not take.
std::string fault_of_blocks(const Node& node, const GraphView& view, const Target& target);

// Of a node that only moves values: a pair of int8 that ONNX Runtime puts behind it and then makes uint8. `file`: as it
// is, with its `view`.
std::string fault_of_moved_pair(const Node& mover, const Surroundings& around, const Model& file,
                                const GraphView& view);

}  // namespace seqto::internal
