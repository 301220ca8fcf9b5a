// Room: model. The tensors of a graph by name: types, constants, readers, and the Q/DQ pairs that it brings.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "seqto/model.h"

namespace seqto::internal {

// What does not change between the candidates of one model.
struct GraphIndex {
  explicit GraphIndex(const Model& model);

  int64_t opset = 0;
  std::unordered_map<std::string, DataType> types;  // of initializers and of inferred tensors
  std::unordered_map<std::string, const Tensor*> initializers;
  std::unordered_map<std::string, const Tensor*> constants;  // of Constant nodes
  std::unordered_map<std::string, int> readers;              // edges, subgraph captures not counted
  std::unordered_set<std::string> captured;                  // read by a subgraph
  std::unordered_set<std::string> inputs, outputs;
  std::unordered_set<std::string> dequantized;  // outputs of DequantizeLinear nodes of the model itself

  // Tensor -> output of the Q/DQ pair that the model brings for it.
  std::unordered_map<std::string, std::string> pairs;

  bool is_initializer(const std::string& name) const { return initializers.contains(name); }
  bool is_float(const std::string& name) const;
  // Value of an initializer or a Constant node; null for what is computed.
  const Tensor* constant(const std::string& name) const;

 private:
  void find_pairs(const Graph& graph);
};

// Whether a Pad of mode constant is known to fill in nothing but 0.
bool pads_zeros(const Node& pad, const GraphIndex& index);

}  // namespace seqto::internal
