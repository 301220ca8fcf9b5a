#include "quantization/improve/graph_edit.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/graph_view.h"
#include "model/op_traits.h"
#include "model/sort_nodes.h"

namespace seqto::internal {

GraphEdit::GraphEdit(const Model& model) : model_(model) {
  const Graph& graph = model_.graph;
  for (const auto* list : {&graph.inputs, &graph.outputs})
    for (const ValueInfo& v : *list) names_.insert(v.name);
  for (const Initializer& i : graph.initializers) {
    constants_[i.name] = &i.tensor;
    names_.insert(i.name);
  }
  for (const Node& node : graph.nodes) {
    names_.insert(node.name);
    names_.insert(node.outputs.begin(), node.outputs.end());
    for_each_read(node, [&](const std::string& name) { names_.insert(name); });
    if (const Tensor* value = constant_value(node)) constants_[node.outputs[0]] = value;
  }
}

const Tensor* GraphEdit::constant(const std::string& name) const {
  auto it = constants_.find(name);
  return it == constants_.end() ? nullptr : it->second;
}

std::string GraphEdit::fresh(const std::string& wanted) {
  std::string name = wanted;
  for (int k = 1; !names_.insert(name).second; ++k) name = fmt::format("{}_{}", wanted, k);
  return name;
}

std::string GraphEdit::add(const std::string& wanted, Tensor tensor) {
  added_.push_back({fresh(wanted), std::move(tensor)});
  return added_.back().name;
}

std::string GraphEdit::add_int64s(const std::vector<int64_t>& values) {
  auto& name = int64s_[values];
  if (name.empty()) name = add(fmt::format("dims_{}", int64s_.size()), int64_tensor({std::ssize(values)}, values));
  return name;
}

std::string GraphEdit::add_uint8(uint8_t value) {
  auto& name = uint8s_[value];
  if (name.empty()) name = add(fmt::format("byte_{}", value), Tensor::from(DataType::kUint8, {}, std::vector{value}));
  return name;
}

std::string GraphEdit::compute(const char* op_type, std::vector<std::string> inputs, const std::string& wanted_output,
                               std::vector<Attribute> attributes) {
  std::string output = fresh(wanted_output);
  // The node's name is its output's: names of nodes and of tensors do not meet in ONNX.
  computed_.push_back({output, op_type, "", std::move(inputs), {output}, std::move(attributes), {}});
  return output;
}

void GraphEdit::require_opset(const std::string& domain, int64_t version) {
  for (Opset& o : model_.opsets)
    if (o.domain == domain) {
      o.version = std::max(o.version, version);
      return;
    }
  model_.opsets.push_back({domain, version});
}

void GraphEdit::require_ir_version(int64_t version) { model_.ir_version = std::max(model_.ir_version, version); }

Model GraphEdit::finish() {
  Graph& graph = model_.graph;
  for (Node& n : graph.nodes)
    if (is_transpose(n) && !n.outputs.empty())
      if (auto it = turned_.find(n.outputs[0]); it != turned_.end()) n.inputs[0] = it->second;
  std::unordered_set<std::string> read;
  for (const Node& n : graph.nodes) for_each_read(n, [&](const std::string& name) { read.insert(name); });
  for (const ValueInfo& v : graph.outputs) read.insert(v.name);
  std::erase_if(graph.nodes, [&](const Node& n) {
    bool turns = is_transpose(n) && !n.inputs.empty() && constants_.contains(n.inputs[0]);
    return (is_constant(n) || turns) && !n.outputs.empty() && !read.contains(n.outputs[0]);
  });
  std::move(graph.nodes.begin(), graph.nodes.end(), std::back_inserter(computed_));
  graph.nodes = std::move(computed_);
  std::move(added_.begin(), added_.end(), std::back_inserter(graph.initializers));
  constants_.clear();
  drop_unused_initializers(graph);
  if (model_.producer_name != "seqto") model_.producer_name = "seqto", model_.producer_version = SEQTO_VERSION;
  return std::move(model_);
}

}  // namespace seqto::internal
