#include "orchestrator/one_pass/cuts.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <unordered_set>

#include "metrics/loss/output_values.h"
#include "model/bodies.h"
#include "model/graph_view.h"
#include "model/op_traits.h"
#include "model/sort_nodes.h"
#include "seqto/task.h"

namespace seqto::internal {
namespace {

using Names = std::unordered_set<std::string>;

std::vector<std::string> answers_of(const Model& model) {
  std::vector<std::string> names;
  for (const ValueInfo& v : model.graph.outputs) names.push_back(v.name);
  return answer_names(std::move(names));
}

// Which nodes `wanted` need where the tensor `from` is given (empty: none), by place, and all that these read.
struct Needed {
  std::vector<bool> nodes;
  Names tensors;
};
Needed needed_for(const Model& model, const Edges& edges, std::vector<std::string> wanted, const std::string& from) {
  Needed needed{std::vector<bool>(model.graph.nodes.size()), {}};
  while (!wanted.empty()) {
    const std::string name = std::move(wanted.back());
    wanted.pop_back();
    if (name.empty() || name == from || !needed.tensors.insert(name).second) continue;
    const Node* producer = edges.producer(name);
    if (!producer || needed.nodes[edges.place(*producer)]) continue;
    needed.nodes[edges.place(*producer)] = true;
    for_each_read(*producer, [&](const std::string& read) { wanted.push_back(read); });
  }
  return needed;
}

// What the weights have a part in: such tensors cannot be computed anew for each part of the graph.
Names made_by_weights(const Model& model) {
  // Bytes of the constant behind a tensor, however it was turned or cast.
  std::unordered_map<std::string, size_t> constants;
  size_t all = 0;
  for (const Initializer& i : model.graph.initializers) all += constants[i.name] = i.tensor.bytes().size();
  const size_t large = all / 1000;
  Names made;
  for (const Node& node : model.graph.nodes) {
    size_t bytes = 0;
    bool constant = true, follows = false;
    for (const std::string& input : node.inputs) {
      if (input.empty()) continue;
      const auto found = constants.find(input);
      if (found == constants.end()) constant = false;
      else bytes += found->second;
      follows |= made.contains(input);
    }
    if (constant) {
      for (const std::string& output : node.outputs) constants[output] = bytes;
    } else if (follows || bytes > large || has(node, kConv | kRecurrent)) {
      made.insert(node.outputs.begin(), node.outputs.end());
    }
  }
  return made;
}

// Of `model` those nodes, what they read, and these inputs and outputs.
Model part_of(const Model& model, const Needed& needed, std::vector<ValueInfo> inputs, std::vector<ValueInfo> outputs) {
  Model part;
  part.ir_version = model.ir_version;
  part.opsets = model.opsets;
  part.external_files = model.external_files;
  part.rest = model.rest;
  part.graph.name = model.graph.name;
  Names seen = needed.tensors;
  for (size_t i = 0; i < model.graph.nodes.size(); ++i) {
    if (!needed.nodes[i]) continue;
    part.graph.nodes.push_back(model.graph.nodes[i]);
    seen.insert(model.graph.nodes[i].outputs.begin(), model.graph.nodes[i].outputs.end());
  }
  for (const Initializer& i : model.graph.initializers)
    if (needed.tensors.contains(i.name)) part.graph.initializers.push_back(i);
  for (const ValueInfo& v : model.graph.value_info)
    if (seen.contains(v.name)) part.graph.value_info.push_back(v);
  part.graph.inputs = std::move(inputs);
  part.graph.outputs = std::move(outputs);
  return part;
}

std::vector<ValueInfo> answer_infos(const Model& model) {
  std::vector<ValueInfo> infos = model.graph.outputs;
  std::erase_if(infos, [](const ValueInfo& v) { return is_memory(v.name); });
  return infos;
}

}  // namespace

std::vector<std::string> cut_tensors(const Model& model) {
  if (std::ranges::any_of(model.graph.nodes, has_body)) return {};  // bodies read tensors that no edge tells of
  const Edges edges(model.graph);
  const std::vector<std::string> answers = answers_of(model);
  const Needed needed = needed_for(model, edges, answers, {});
  const Names made = made_by_weights(model);
  const auto last_reader = [&](const std::string& tensor) {
    const Node* last = nullptr;
    for (const Node* reader : edges.readers(tensor))
      if (needed.nodes[edges.place(*reader)]) last = reader;
    return last;
  };
  Names live;  // of what weights made: what is still to be read
  std::vector<std::string> cuts;
  for (size_t i = 0; i < model.graph.nodes.size(); ++i) {
    const Node& node = model.graph.nodes[i];
    if (!needed.nodes[i]) continue;
    for (const std::string& input : node.inputs)
      if (live.contains(input) && last_reader(input) == &node) live.erase(input);
    for (const std::string& output : node.outputs)
      if (made.contains(output) && last_reader(output)) live.insert(output);
    // What is behind a later cut would not give it.
    if (std::ranges::any_of(node.outputs, [&](const auto& o) { return std::ranges::count(answers, o) > 0; })) break;
    if (live.size() == 1 && live.contains(node.outputs[0])) cuts.push_back(node.outputs[0]);
  }
  return cuts;
}

Model behind(const Model& model, const ValueInfo& tensor, const std::vector<std::string>& inputs) {
  const Edges edges(model.graph);
  std::vector<ValueInfo> read{tensor};
  for (const ValueInfo& v : model.graph.inputs)
    if (std::ranges::count(inputs, v.name) > 0) read.push_back(v);
  return part_of(model, needed_for(model, edges, answers_of(model), tensor.name), std::move(read), answer_infos(model));
}

std::vector<std::string> inputs_behind(const Model& model, const std::string& tensor) {
  const Edges edges(model.graph);
  const Needed needed = needed_for(model, edges, answers_of(model), tensor);
  std::vector<std::string> names;
  for (const ValueInfo& v : model.graph.free_inputs())
    if (needed.tensors.contains(v.name)) names.push_back(v.name);
  return names;
}

std::vector<Block> blocks(const Model& model, int64_t bytes) {
  const Edges edges(model.graph);
  std::unordered_map<std::string, int64_t> sizes;
  for (const Initializer& i : model.graph.initializers)
    sizes[i.name] = i.tensor.element_count() * static_cast<int64_t>(sizeof(float));
  std::unordered_map<std::string, const ValueInfo*> infos;
  for (const ValueInfo& v : model.graph.value_info) infos.try_emplace(v.name, &v);
  const auto info_of = [&](const std::string& tensor) {
    const auto found = infos.find(tensor);
    return found == infos.end() ? ValueInfo{.name = tensor} : *found->second;
  };
  const std::vector<ValueInfo> free = model.graph.free_inputs();
  std::vector<Block> result;
  std::string from;
  const auto add = [&](const Needed& needed, std::vector<ValueInfo> outputs) {
    Block block;
    std::vector<ValueInfo> inputs;
    if (!from.empty()) inputs.push_back(info_of(from));
    for (size_t i = 0; i < free.size(); ++i) {
      if (!needed.tensors.contains(free[i].name)) continue;
      block.inputs.push_back(i);
      inputs.push_back(free[i]);
    }
    block.model = part_of(model, needed, std::move(inputs), std::move(outputs));
    result.push_back(std::move(block));
  };
  const auto cut_at = [&](const std::string& cut) {
    add(needed_for(model, edges, {cut}, from), {info_of(cut)});
    from = cut;
  };
  // A constant counts where it is read first behind the last cut.
  Names counted;
  size_t at = 0;
  const auto bytes_up_to = [&](size_t end) {
    int64_t found = 0;
    for (; at < end; ++at)
      for (const std::string& input : model.graph.nodes[at].inputs)
        if (const auto size = sizes.find(input); size != sizes.end() && counted.insert(input).second)
          found += size->second;
    return found;
  };
  int64_t held = 0;
  std::string last;  // cut that may be taken
  for (const std::string& cut : cut_tensors(model)) {
    const DataType type = info_of(cut).type;
    if (type != DataType::kFloat && type != DataType::kFloat16) continue;
    const int64_t more = bytes_up_to(edges.place(*edges.producer(cut)) + 1);
    if (!last.empty() && held + more > bytes) {
      cut_at(last);
      held = 0;
      counted.clear();
    }
    held += more;
    last = cut;
  }
  if (!last.empty() && held + bytes_up_to(model.graph.nodes.size()) > bytes) cut_at(last);
  add(needed_for(model, edges, answers_of(model), from), answer_infos(model));
  return result;
}

Model beside_block(const Model& model, const Model& block, const std::vector<size_t>& nodes) {
  const std::vector<Node>& all = model.graph.nodes;
  Names constants, names, made;
  for (const Initializer& i : model.graph.initializers) constants.insert(i.name);
  for (const Node& node : all)
    if (std::ranges::all_of(node.inputs, [&](const auto& t) { return constants.contains(t); }))
      constants.insert(node.outputs.begin(), node.outputs.end());
  std::vector<std::string> weights;  // those behind a Transpose too
  for (const size_t i : nodes)
    std::ranges::copy_if(all[i].inputs, std::back_inserter(weights),
                         [&](const auto& t) { return constants.contains(t); });
  Needed needed = needed_for(model, Edges(model.graph), std::move(weights), {});
  for (const size_t i : nodes) needed.nodes[i] = true;
  for (const Node& node : block.graph.nodes) names.insert(node.name);
  for (size_t i = 0; i < all.size(); ++i) {
    if (!needed.nodes[i] && !names.contains(all[i].name)) continue;
    needed.nodes[i] = true;
    made.insert(all[i].outputs.begin(), all[i].outputs.end());
    for_each_read(all[i], [&](const std::string& read) { needed.tensors.insert(read); });
  }
  std::vector<ValueInfo> inputs = block.graph.inputs, outputs = block.graph.outputs;
  const auto info_of = [&](const std::string& tensor) {
    for (const auto* infos : {&model.graph.inputs, &model.graph.outputs, &model.graph.value_info})
      for (const ValueInfo& v : *infos)
        if (v.name == tensor) return v;
    return ValueInfo{.name = tensor};
  };
  const auto add = [&](std::vector<ValueInfo>& to, const std::string& tensor) {
    if (!tensor.empty() && std::ranges::find(to, tensor, &ValueInfo::name) == to.end()) to.push_back(info_of(tensor));
  };
  // What one of them makes the block may read, as its input.
  std::erase_if(inputs, [&](const ValueInfo& v) { return made.contains(v.name); });
  for (const size_t i : nodes) {
    for (const std::string& read : all[i].inputs)
      if (!constants.contains(read) && !made.contains(read)) add(inputs, read);
    for (const std::string& output : all[i].outputs) add(outputs, output);
  }
  return part_of(model, needed, std::move(inputs), std::move(outputs));
}

Model only_block(const Model& model, const Model& block) {
  std::vector<std::string> wanted;
  for (const ValueInfo& v : block.graph.outputs) wanted.push_back(v.name);
  const std::string from = block.graph.inputs.empty() ? std::string() : block.graph.inputs[0].name;
  return part_of(model, needed_for(model, Edges(model.graph), std::move(wanted), from), block.graph.inputs,
                 block.graph.outputs);
}

}  // namespace seqto::internal
