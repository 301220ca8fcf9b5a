// Room: model. A graph as passes ask about it: who makes a tensor, who reads it, what is known of it. Built once, from
// a model that outlives it and is not changed meanwhile.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "seqto/model.h"

namespace seqto::internal {

// Who makes and who reads each tensor.
class Edges {
 public:
  explicit Edges(const Graph& graph) : Edges(graph.nodes, graph.outputs) {}
  // Of such nodes but the removed ones, with `outputs` read by the graph's caller.
  explicit Edges(std::span<const Node> nodes, std::span<const ValueInfo> outputs = {},
                 const std::vector<bool>& removed = {});

  // Null for inputs, initializers and what does not exist.
  const Node* producer(const std::string& tensor) const;
  // In graph order, once for each input of a node; bodies of If, Loop and Scan not counted.
  const std::vector<const Node*>& readers(const std::string& tensor) const;
  // The node that alone reads the tensor, at one input; null where several do, a body, or the graph's caller.
  const Node* only_reader(const std::string& tensor) const;
  // How often it is read: by nodes, by bodies, and as an output of the graph.
  size_t uses(const std::string& tensor) const;
  // The node's place in the graph.
  size_t place(const Node& node) const { return static_cast<size_t>(&node - first_); }

 private:
  struct Ends {
    const Node* producer = nullptr;
    std::vector<const Node*> readers;
    size_t others = 0;  // bodies and outputs of the graph
  };
  const Ends* find(const std::string& tensor) const;

  const Node* first_;
  std::unordered_map<std::string, Ends> ends_;
};

struct GraphView {
  explicit GraphView(const Model& model);

  int64_t opset = 0;
  Edges edges;
  std::unordered_map<std::string, DataType> types;  // of initializers and of inferred tensors
  std::unordered_map<std::string, const Tensor*> initializers;
  std::unordered_map<std::string, const Tensor*> constants;  // of Constant nodes
  std::unordered_set<std::string> captured;                  // read by a body
  std::unordered_set<std::string> inputs, outputs;
  std::unordered_set<std::string> dequantized;  // outputs of DequantizeLinear nodes of the model itself

  // Tensor -> output of the Q/DQ pair that the model brings for it.
  std::unordered_map<std::string, std::string> pairs;

  bool is_initializer(const std::string& name) const { return initializers.contains(name); }
  bool is_float(const std::string& name) const;
  // Value of an initializer or a Constant node; null for what is computed.
  const Tensor* constant(const std::string& name) const;
  // How many inputs of nodes it is at; bodies and the graph's outputs not counted.
  size_t read_count(const std::string& tensor) const { return edges.readers(tensor).size(); }

 private:
  void find_pairs(const Graph& graph);
};

// Whether a Pad of mode constant is known to fill in nothing but 0.
bool pads_zeros(const Node& pad, const GraphView& view);

// The lowest and the highest value that a Relu or Clip lets through; nothing where a bound is computed at run time.
std::optional<std::pair<double, double>> clip_bounds(const Node& activation, const GraphView& view);

// The tensor that a Constant node holds; null for other nodes and other values.
const Tensor* constant_value(const Node& node);

}  // namespace seqto::internal
