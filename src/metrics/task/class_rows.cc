// Which models give rows of class scores: one set for each token, frame or position.
#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "data/token_inputs.h"
#include "model/graph_view.h"
#include "model/op_traits.h"
#include "seqto/task.h"

namespace seqto {
namespace {

// What an operator does to class scores.
enum class Role { kOther, kMakes, kSoftmax, kMoves, kShifts, kScales };
Role role_of(const Node& node) {
  static const std::unordered_map<std::string_view, Role> kRoles{
      {"Add", Role::kShifts},      {"Cast", Role::kMoves},          {"DequantizeLinear", Role::kMoves},
      {"Div", Role::kScales},      {"FusedMatMul", Role::kMakes},   {"Gather", Role::kMoves},
      {"Gemm", Role::kMakes},      {"Identity", Role::kMoves},      {"LogSoftmax", Role::kSoftmax},
      {"MatMul", Role::kMakes},    {"MatMulNBits", Role::kMakes},   {"Mul", Role::kScales},
      {"QGemm", Role::kMakes},     {"QLinearMatMul", Role::kMakes}, {"QuantizeLinear", Role::kMoves},
      {"Reshape", Role::kMoves},   {"Sigmoid", Role::kMoves},       {"Slice", Role::kMoves},
      {"Softmax", Role::kSoftmax}, {"Squeeze", Role::kMoves},       {"Sub", Role::kShifts},
      {"Sum", Role::kShifts},      {"Tanh", Role::kMoves},          {"Unsqueeze", Role::kMoves},
  };
  const auto it = kRoles.find(node.op_type);
  return it == kRoles.end() ? Role::kOther : it->second;
}

class Scores {
 public:
  explicit Scores(const Model& model) : graph_(model.graph), view_(model) {}

  // Of a map, over the axis before its rows and columns.
  bool found_in_map() const {
    if (graph_.outputs.empty() || !graph_.outputs[0].shape || graph_.outputs[0].shape->size() != 4) return false;
    const Node* node = view_.edges.producer(graph_.outputs[0].name);
    while (node && !node->inputs.empty() && (internal::is_resize(*node) || internal::is_identity(*node)))
      node = view_.edges.producer(node->inputs[0]);
    if (!node || role_of(*node) != Role::kSoftmax) return false;
    const int64_t axis = node->int_attribute("axis", -1);
    return axis == 1 || axis == -3;
  }

  bool found() const {
    if (graph_.outputs.empty()) return false;
    const bool ids = internal::reads_ids(graph_.free_inputs());
    const Node* node = view_.edges.producer(graph_.outputs[0].name);
    for (size_t steps = 0; node && steps < graph_.nodes.size(); ++steps) {
      if (node->inputs.empty()) return false;
      if (role_of(*node) == Role::kSoftmax) return is_last(*node);
      if (role_of(*node) == Role::kMakes) return ids;
      node = before(*node);
    }
    return false;
  }

 private:
  bool is_last(const Node& softmax) const {
    const int64_t axis = softmax.int_attribute("axis", -1);
    const auto& shape = graph_.outputs[0].shape;
    return axis == -1 || (shape && axis + 1 == static_cast<int64_t>(shape->size()));
  }

  // What gives the scores that this node moves, shifts, scales or caps; null for others. A vector of factors is a
  // normalization's, behind which there are features.
  const Node* before(const Node& node) const {
    const Role role = role_of(node);
    if (role == Role::kMoves) return view_.edges.producer(node.inputs[0]);
    const bool shifts = role == Role::kShifts;
    if ((!shifts && role != Role::kScales) || node.inputs.size() != 2) return nullptr;
    for (size_t k : {size_t{1}, size_t{0}})
      if (const Tensor* constant = view_.constant(node.inputs[k]))
        return shifts || constant->element_count() == 1 ? view_.edges.producer(node.inputs[1 - k]) : nullptr;
    return nullptr;
  }

  const Graph& graph_;
  internal::GraphView view_;
};

}  // namespace

bool gives_class_maps(const Model& model) { return Scores(model).found_in_map(); }

bool gives_class_rows(const Model& model) { return Scores(model).found(); }

}  // namespace seqto
