// Which models give rows of class scores: one set for each token, frame or position.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "seqto/metrics.h"

namespace seqto {
namespace {

bool is_one_of(const Node& node, std::initializer_list<std::string_view> types) {
  return std::ranges::find(types, node.op_type) != types.end();
}

class Scores {
 public:
  explicit Scores(const Model& model) : graph_(model.graph) {
    for (const Node& node : graph_.nodes)
      for (const std::string& output : node.outputs) producers_[output] = &node;
    for (const Initializer& i : graph_.initializers) constants_[i.name] = i.tensor.element_count();
    for (const Node& node : graph_.nodes)
      if (const Attribute* value = node.op_type == "Constant" ? node.attribute("value") : nullptr)
        if (const auto* tensor = std::get_if<Tensor>(&value->value); tensor && !node.outputs.empty())
          constants_[node.outputs[0]] = tensor->element_count();
  }

  bool found() const {
    if (graph_.outputs.empty()) return false;
    const auto inputs = graph_.free_inputs();
    const bool ids = std::ranges::any_of(inputs, [](const ValueInfo& input) {
      return input.type == DataType::kInt64 || input.type == DataType::kInt32;
    });
    const Node* node = producer(graph_.outputs[0].name);
    for (size_t steps = 0; node && steps < graph_.nodes.size(); ++steps) {
      if (node->inputs.empty()) return false;
      if (is_one_of(*node, {"Softmax", "LogSoftmax"})) return is_last(*node);
      if (is_one_of(*node, {"MatMul", "Gemm", "MatMulNBits", "FusedMatMul", "QLinearMatMul", "QGemm"})) return ids;
      node = before(*node);
    }
    return false;
  }

 private:
  const Node* producer(const std::string& tensor) const {
    auto it = producers_.find(tensor);
    return it == producers_.end() ? nullptr : it->second;
  }

  bool is_last(const Node& softmax) const {
    const int64_t axis = softmax.int_attribute("axis", -1);
    const auto& shape = graph_.outputs[0].shape;
    return axis == -1 || (shape && axis + 1 == static_cast<int64_t>(shape->size()));
  }

  // What gives the scores that this node moves, shifts, scales or caps; null for others. A vector of factors is a
  // normalization's, behind which there are features.
  const Node* before(const Node& node) const {
    if (is_one_of(node, {"Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze", "Slice", "Gather", "Tanh",
                         "QuantizeLinear", "DequantizeLinear"}))
      return producer(node.inputs[0]);
    const bool shifts = is_one_of(node, {"Add", "Sub"});
    if ((!shifts && !is_one_of(node, {"Mul", "Div"})) || node.inputs.size() != 2) return nullptr;
    for (size_t k : {size_t{1}, size_t{0}})
      if (auto it = constants_.find(node.inputs[k]); it != constants_.end())
        return shifts || it->second == 1 ? producer(node.inputs[1 - k]) : nullptr;
    return nullptr;
  }

  const Graph& graph_;
  std::unordered_map<std::string, const Node*> producers_;
  std::unordered_map<std::string, int64_t> constants_;  // and how many values they have
};

}  // namespace

bool gives_class_rows(const Model& model) { return Scores(model).found(); }

}  // namespace seqto
