#include "quantization/read/pair_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "model/bodies.h"
#include "model/graph_view.h"
#include "model/op_traits.h"

namespace seqto::internal {

std::string input(const Node& node, size_t i) { return i < node.inputs.size() ? node.inputs[i] : std::string(); }

bool is_removed(const Node& node) { return node.op_type.empty(); }

PairGraph::PairGraph(const Model& model) : file_(model), opset_(model.opset()) {
  const Graph& graph = model.graph;
  const auto note = [&](const ValueInfo& v) {
    types_[v.name] = v.type;
    if (!v.shape) return;
    std::vector<int64_t> dims;
    for (const Dimension& d : *v.shape) dims.push_back(d.value);
    if (std::ranges::all_of(dims, [](int64_t d) { return d >= 0; })) shapes_[v.name] = std::move(dims);
  };
  for (const auto* values : {&graph.value_info, &graph.outputs, &graph.inputs}) std::ranges::for_each(*values, note);
  for (const ValueInfo& v : graph.inputs) inputs_.insert(v.name);
  for (const ValueInfo& v : graph.outputs) ++others_[v.name], outputs_.insert(v.name);
  for (const Initializer& i : graph.initializers) {
    types_[i.name] = i.tensor.type(), shapes_[i.name] = i.tensor.dims(), initializers_.insert(i.name);
    if (!inputs_.contains(i.name)) constants_[i.name] = i.tensor;
  }
  for (const Node& node : graph.nodes) {
    add(is_if(node) ? taken_branch(node) : node);
    if (const Tensor* value = constant_value(node)) constants_[node.outputs[0]] = *value;
  }
}

// An If by a constant: what its other branch would read is not read.
Node PairGraph::taken_branch(Node node) const {
  const Tensor* condition = constant(input(node, 0));
  for (Attribute& a : node.attributes)
    if (auto* body = std::get_if<OpaqueAttribute>(&a.value); body && condition)
      if (a.name != (element(*condition, 0) != 0 ? "then_branch" : "else_branch")) body->captures.clear();
  return node;
}

const std::vector<int64_t>* PairGraph::dims(const std::string& tensor) const {
  const auto it = shapes_.find(tensor);
  return it == shapes_.end() ? nullptr : &it->second;
}

Node* PairGraph::producer(const std::string& tensor) const {
  const auto it = producers_.find(tensor);
  return it == producers_.end() ? nullptr : it->second;
}

const std::vector<PairGraph::Use>& PairGraph::readers(const std::string& tensor) const {
  static const std::vector<Use> kNone;
  const auto it = readers_.find(tensor);
  return it == readers_.end() ? kNone : it->second;
}

size_t PairGraph::uses(const std::string& tensor) const {
  const auto others = others_.find(tensor);
  return readers(tensor).size() + (others == others_.end() ? 0 : others->second);
}

Node* PairGraph::only_reader(const std::string& tensor) const {
  return uses(tensor) == 1 && readers(tensor).size() == 1 ? readers(tensor)[0].node : nullptr;
}

const Tensor* PairGraph::constant(const std::string& tensor) const {
  const auto it = constants_.find(tensor);
  return it == constants_.end() ? nullptr : &it->second;
}

bool PairGraph::is_scalar(const std::string& tensor) const {
  const auto it = shapes_.find(tensor);
  return it != shapes_.end() && (it->second.empty() || (it->second.size() == 1 && it->second[0] == 1));
}

bool PairGraph::has_constant_scalars(const Node& pair) const {
  const auto good = [&](const std::string& tensor) { return is_constant(tensor) && is_scalar(tensor); };
  return good(input(pair, 1)) && (input(pair, 2).empty() || good(input(pair, 2)));
}

bool PairGraph::say_the_same(const Node& a, const Node& b) const {
  for (const size_t i : {1, 2}) {
    const Tensor *of_a = constant(input(a, i)), *of_b = constant(input(b, i));
    if (!of_a || !of_b || of_a->element_count() != 1 || of_b->element_count() != 1) return false;
    if (of_a->type() != of_b->type() || element(*of_a, 0) != element(*of_b, 0)) return false;
  }
  return true;
}

Node& PairGraph::add(Node node) {
  Node& added = nodes_.emplace_back(std::move(node));
  named_[added.name] = &added;
  for (size_t i = 0; i < added.inputs.size(); ++i)
    if (!added.inputs[i].empty()) readers_[added.inputs[i]].push_back({&added, i});
  for (const std::string& output : added.outputs)
    if (!output.empty()) producers_[output] = &added;
  for (const Attribute& a : added.attributes)
    if (const auto* body = std::get_if<OpaqueAttribute>(&a.value))
      for (const std::string& tensor : body->captures) ++others_[tensor];
  return added;
}

void PairGraph::read(const Use& use, const std::string& tensor) {
  auto& old = readers_[use.node->inputs[use.input]];
  std::erase_if(old, [&](const Use& u) { return u.node == use.node && u.input == use.input; });
  use.node->inputs[use.input] = tensor;
  readers_[tensor].push_back(use);
}

void PairGraph::remove(Node& node) {
  for (const std::string& tensor : node.inputs)
    std::erase_if(readers_[tensor], [&](const Use& u) { return u.node == &node; });
  for (const std::string& output : node.outputs) producers_.erase(output);
  node.op_type.clear();
}

void PairGraph::bypass(Node& node) {
  const std::string from = node.inputs[0];
  const std::vector<Use> uses = readers(node.outputs[0]);
  remove(node);
  for (const Use& use : uses) read(use, from);
}

std::string PairGraph::new_tensor(const std::string& base, DataType type) {
  std::string name = fmt::format("{}#{}", base, added_.size());
  types_[name] = type;
  if (const auto shape = shapes_.find(base); shape != shapes_.end()) shapes_[name] = std::vector(shape->second);
  added_.push_back(name);
  return name;
}

std::string PairGraph::new_constant(const std::string& base, Tensor value) {
  std::string name = new_tensor(base, value.type());
  shapes_[name] = value.dims();
  constants_[name] = std::move(value);
  return name;
}

Node& PairGraph::copy_pair(const Node& pair, std::string_view op_type, const std::string& from, const std::string& to,
                           const Node* heir_of) {
  Node copy{
      .name = fmt::format("{}#{}", pair.name, nodes_.size()), .op_type = std::string(op_type), .domain = pair.domain};
  copy.inputs = pair.inputs;
  copy.inputs[0] = from;
  copy.outputs = {to};
  if (heir_of) heirs_[heir_of->name].push_back(copy.name);
  return add(std::move(copy));
}

Model PairGraph::model() const {
  Model now;
  now.ir_version = file_.ir_version;
  now.opsets = file_.opsets;
  now.graph.inputs = file_.graph.inputs;
  now.graph.outputs = file_.graph.outputs;
  now.graph.value_info = file_.graph.value_info;
  now.graph.initializers = file_.graph.initializers;
  for (const std::string& name : added_) {
    if (const Tensor* value = constant(name)) now.graph.initializers.push_back({name, *value});
    else now.graph.value_info.push_back({.name = name, .type = types_.at(name)});
  }
  for (const Node& node : nodes_)
    if (!is_removed(node)) now.graph.nodes.push_back(node);
  return now;
}

std::vector<std::string> PairGraph::now(const std::string& node) const {
  std::unordered_set<std::string> names;
  const std::function<void(const std::string&)> follow = [&](const std::string& name) {
    if (!names.insert(name).second) return;
    if (const auto it = heirs_.find(name); it != heirs_.end()) std::ranges::for_each(it->second, follow);
  };
  follow(node);
  std::vector<std::string> alive;
  for (const std::string& name : names)
    if (const auto it = named_.find(name); it != named_.end() && !is_removed(*it->second)) alive.push_back(name);
  std::ranges::sort(alive);
  return alive;
}

void PairGraph::remove_unread(const std::string& tensor) {
  for (std::vector<std::string> unread{tensor}; !unread.empty();) {
    const std::string name = std::move(unread.back());
    unread.pop_back();
    Node* node = producer(name);
    if (!node || uses(name) > 0 || node->outputs.size() != 1 || has_body(*node)) continue;
    unread.insert(unread.end(), node->inputs.begin(), node->inputs.end());
    remove(*node);
  }
}

}  // namespace seqto::internal
