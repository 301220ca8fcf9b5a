#include "metrics/node_by_node.h"

#include <algorithm>
#include <unordered_set>

namespace seqto::internal {

NodeByNode::NodeByNode(const Model& model, Runner& runner) : model_(model), runner_(runner) {
  std::unordered_map<std::string, const Initializer*> constants;
  for (const Initializer& i : model.graph.initializers) constants[i.name] = &i;
  for (const Node& node : model.graph.nodes) {
    Step& step = steps_.emplace_back();
    step.node = &node;
    std::unordered_set<std::string> known;
    const auto take = [&](const std::string& name) {
      if (name.empty() || !known.insert(name).second) return;
      if (const auto constant = constants.find(name); constant != constants.end())
        step.constants.push_back(constant->second);
      else step.reads.push_back(name);
    };
    std::ranges::for_each(node.inputs, take);
    for (const Attribute& a : node.attributes)
      if (const auto* body = std::get_if<OpaqueAttribute>(&a.value)) std::ranges::for_each(body->captures, take);
  }
  std::unordered_set<std::string> needed;
  for (const ValueInfo& output : model.graph.outputs) needed.insert(output.name);
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step)
    for (size_t i = 0; i < step->reads.size(); ++i)
      if (needed.insert(step->reads[i]).second) step->last_read.push_back(i);
}

std::unique_ptr<Session> NodeByNode::load(const Step& step, std::span<const Tensor> inputs) const {
  Model one{.ir_version = model_.ir_version, .opsets = model_.opsets};
  one.rest = model_.rest;  // functions
  one.graph.name = "node";
  one.graph.nodes = {*step.node};
  for (const Initializer* constant : step.constants) one.graph.initializers.push_back(*constant);
  for (size_t i = 0; i < inputs.size(); ++i)
    one.graph.inputs.push_back({step.reads[i], inputs[i].type(), std::nullopt, {}});
  for (const std::string& output : step.node->outputs)
    if (!output.empty()) one.graph.outputs.push_back({output, DataType::kUndefined, {}, ""});
  return runner_.load(one, {.optimization = SessionOptions::Optimization::kNone});
}

std::vector<Tensor> NodeByNode::run(std::span<const Tensor> inputs, const Seen& seen) {
  std::unordered_map<std::string, Tensor> values;
  const std::vector<ValueInfo> given = model_.graph.free_inputs();
  for (size_t i = 0; i < given.size(); ++i) values[given[i].name] = inputs[i];
  for (const Initializer& i : model_.graph.initializers)
    if (std::ranges::any_of(model_.graph.outputs, [&](const ValueInfo& o) { return o.name == i.name; }))
      values[i.name] = i.tensor;
  for (Step& step : steps_) {
    std::vector<Tensor> read;
    for (const std::string& name : step.reads) read.push_back(values.at(name));
    if (!step.session) step.session = load(step, read);
    const std::vector<Tensor> made = step.session->run(read);
    if (seen) seen(*step.node, made);
    for (size_t i = 0, o = 0; i < step.node->outputs.size(); ++i)
      if (!step.node->outputs[i].empty()) values[step.node->outputs[i]] = made[o++];
    for (const size_t i : step.last_read) values.erase(step.reads[i]);
  }
  std::vector<Tensor> outputs;
  for (const ValueInfo& output : model_.graph.outputs) outputs.push_back(values.at(output.name));
  return outputs;
}

}  // namespace seqto::internal
