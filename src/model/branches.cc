#include "model/branches.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "model/bodies.h"
#include "model/op_traits.h"
#include "model/sort_nodes.h"

namespace seqto::internal {
namespace {

constexpr const char* kThen = "then_branch";
constexpr const char* kElse = "else_branch";

const OpaqueAttribute* body_of(const Node& node, const char* name) {
  const Attribute* attribute = node.attribute(name);
  return attribute ? std::get_if<OpaqueAttribute>(&attribute->value) : nullptr;
}

bool same_names(const std::vector<ValueInfo>& a, const std::vector<ValueInfo>& b) {
  return std::ranges::equal(a, b, {}, &ValueInfo::name, &ValueInfo::name);
}

// The branch, which reads inputs and weights of the whole.
std::optional<Model> alone(const Model& whole, const OpaqueAttribute& body) {
  std::vector<Model> bodies = parse_bodies(body, whole.opsets);
  if (bodies.size() != 1 || !same_names(bodies.front().graph.outputs, whole.graph.outputs)) return {};
  Model branch = std::move(bodies.front());
  const std::unordered_set<std::string> read(body.captures.begin(), body.captures.end());
  for (const ValueInfo& input : whole.graph.free_inputs())
    if (read.contains(input.name)) branch.graph.inputs.push_back(input);
  for (const Initializer& weight : whole.graph.initializers)
    if (read.contains(weight.name)) branch.graph.initializers.push_back(weight);
  // A branch may leave the types of its outputs to the If.
  for (size_t i = 0; i < whole.graph.outputs.size(); ++i)
    if (ValueInfo& output = branch.graph.outputs[i]; output.type == DataType::kUndefined)
      output = whole.graph.outputs[i];
  branch.ir_version = whole.ir_version;
  branch.external_files = whole.external_files;
  branch.rest = whole.rest;
  return branch;
}

std::unordered_set<std::string> names_in(const Graph& graph) {
  std::unordered_set<std::string> names;
  for (const auto* list : {&graph.inputs, &graph.outputs})
    for (const ValueInfo& v : *list) names.insert(v.name);
  for (const Initializer& i : graph.initializers) names.insert(i.name);
  for (const Node& node : graph.nodes) names.insert(node.outputs.begin(), node.outputs.end());
  return names;
}

std::unordered_set<std::string> read_by_bodies(const Graph& graph) {
  std::unordered_set<std::string> names;
  for (const Node& node : graph.nodes)
    for (const Attribute& a : node.attributes)
      if (const auto* body = std::get_if<OpaqueAttribute>(&a.value))
        names.insert(body->captures.begin(), body->captures.end());
  return names;
}

// Weights beside the If, each once. What is as small as shapes and scales stays in the branch that reads it.
class Shared {
 public:
  explicit Shared(const Branches& branches)
      : taken_{names_in(branches.then_branch.graph), names_in(branches.else_branch.graph)} {}

  void take_from(Graph& graph) {
    constexpr size_t kLarge = 256;  // bytes
    const std::unordered_set<std::string> kept = read_by_bodies(graph);
    std::unordered_map<std::string, std::string> renamed;
    std::erase_if(graph.initializers, [&](const Initializer& weight) {
      if (weight.tensor.bytes().size() < kLarge || kept.contains(weight.name)) return false;
      renamed[weight.name] = name_of(weight);
      return true;
    });
    for (Node& node : graph.nodes)
      for (std::string& input : node.inputs)
        if (const auto found = renamed.find(input); found != renamed.end()) input = found->second;
  }

  std::vector<Initializer> weights;

 private:
  // Nothing in a branch may be called as something outside.
  std::string name_of(const Initializer& weight) {
    const Tensor& t = weight.tensor;
    std::string& name = names_[{t.type(), t.dims(), xxh3_hex(t.bytes())}];
    if (!name.empty()) return name;
    for (int i = 0;
         name.empty() || std::ranges::any_of(taken_, [&](const auto& names) { return names.contains(name); }); ++i)
      name = fmt::format("{}_merged{}", weight.name, i == 0 ? "" : fmt::format("_{}", i));
    taken_.back().insert(name);
    weights.push_back({name, t});
    return name;
  }

  std::vector<std::unordered_set<std::string>> taken_;
  std::map<std::tuple<DataType, std::vector<int64_t>, std::string>, std::string> names_;
};

void join_opsets(std::vector<Opset>& all, const std::vector<Opset>& more) {
  for (const Opset& opset : more) {
    const auto same = std::ranges::find(all, opset.domain, &Opset::domain);
    if (same == all.end()) all.push_back(opset);
    else same->version = std::max(same->version, opset.version);
  }
}

}  // namespace

std::optional<Branches> branches_of(const Model& model) {
  const Graph& graph = model.graph;
  if (graph.nodes.size() != 1 || !body_of(graph.nodes[0], kThen) || !body_of(graph.nodes[0], kElse)) return {};
  const Node& choice = graph.nodes[0];
  const std::vector<ValueInfo> inputs = graph.free_inputs();
  if (choice.inputs.size() != 1 || std::ranges::count(inputs, choice.inputs[0], &ValueInfo::name) == 0 ||
      !std::ranges::equal(choice.outputs, graph.outputs, {}, {}, &ValueInfo::name))
    return {};
  auto then_branch = alone(model, *body_of(choice, kThen)), else_branch = alone(model, *body_of(choice, kElse));
  if (!then_branch || !else_branch) return {};
  return Branches{choice.inputs[0], *std::move(then_branch), *std::move(else_branch)};
}

bool reads_a_past(const Model& model) {
  return std::ranges::any_of(model.graph.free_inputs(), [](const ValueInfo& v) { return v.name.starts_with("past"); });
}

Model with_branches(const Model& model, Branches branches) {
  Model result = model;
  result.graph.initializers.clear();
  result.graph.value_info.clear();
  Model *const then_branch = &branches.then_branch, *const else_branch = &branches.else_branch;
  const int64_t opset = std::max(then_branch->opset(), else_branch->opset());
  for (Model* branch : {then_branch, else_branch})
    if (branch->opset() < opset) *branch = convert_opset(*branch, opset);
  Shared shared(branches);
  Node& choice = result.graph.nodes.front();
  result.opsets.clear();
  for (const auto& [name, branch] : {std::pair(kThen, then_branch), std::pair(kElse, else_branch)}) {
    shared.take_from(branch->graph);
    branch->graph.inputs.clear();  // they are the whole's
    branch->graph.value_info.clear();
    join_opsets(result.opsets, branch->opsets);
    result.ir_version = std::max(result.ir_version, branch->ir_version);
    choice.set_attribute({name, with_bodies(*body_of(choice, name), {*branch})});
  }
  result.graph.initializers = std::move(shared.weights);
  return result;
}

}  // namespace seqto::internal
