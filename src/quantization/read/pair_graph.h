// Room: quantization/read. A graph whose pairs are moved, copied and removed, with what became of each node of the
// file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "seqto/model.h"

namespace seqto::internal {

class PairGraph {
 public:
  // `model` has names and types, and outlives this. No weight is copied.
  explicit PairGraph(const Model& model);

  // The graph as it is now; new nodes have names of their own.
  Model model() const;
  // The nodes of model() that do what a node of the file did; none: it was left out.
  std::vector<std::string> now(const std::string& node) const;
  // Whether the tensor is computed once, when the model is loaded.
  bool is_folded(const std::string& tensor) const { return folded_.contains(tensor); }
  // Null where not all is known.
  const std::vector<int64_t>* dims(const std::string& tensor) const;

 protected:
  struct Use {
    Node* node;
    size_t input;
  };

  // --- what there is
  Node* producer(const std::string& tensor) const;
  const std::vector<Use>& readers(const std::string& tensor) const;
  // By nodes, by bodies and by the graph's caller.
  size_t uses(const std::string& tensor) const;
  Node* only_reader(const std::string& tensor) const;
  const Tensor* constant(const std::string& tensor) const;
  bool is_constant(const std::string& tensor) const { return constant(tensor) || folded_.contains(tensor); }
  bool is_scalar(const std::string& tensor) const;
  bool has_constant_scalars(const Node& pair) const;
  // One type, scale and zero point, all scalars that are given.
  bool say_the_same(const Node& pair, const Node& other) const;

  // --- what changes it
  Node& add(Node node);
  void read(const Use& use, const std::string& tensor);
  void remove(Node& node);
  // What reads its first output reads its first input instead.
  void bypass(Node& node);
  // What computed the tensor for nobody else goes, and so on upwards.
  void remove_unread(const std::string& tensor);
  std::string new_tensor(const std::string& base, DataType type);
  std::string new_constant(const std::string& base, Tensor value);
  Node& copy_pair(const Node& pair, std::string_view op_type, const std::string& from, const std::string& to,
                  const Node* heir_of);

  const Model& file_;
  int64_t opset_;
  std::deque<Node> nodes_;  // removed ones have no operator
  std::unordered_map<std::string, DataType> types_;
  std::unordered_map<std::string, std::vector<int64_t>> shapes_;  // where all is known
  std::unordered_map<std::string, Tensor> constants_;
  std::unordered_map<std::string, size_t> others_;  // readers that are no nodes: bodies, the graph's caller
  std::unordered_map<std::string, std::vector<Use>> readers_;
  std::unordered_map<std::string, Node*> producers_;
  std::unordered_set<std::string> folded_, inputs_, outputs_, initializers_;
  std::unordered_map<std::string, std::vector<std::string>> heirs_;

 private:
  Node taken_branch(Node node) const;

  std::unordered_map<std::string, const Node*> named_;
  std::vector<std::string> added_;  // tensors
};

std::string input(const Node& node, size_t i);  // "": absent
bool is_removed(const Node& node);

}  // namespace seqto::internal
