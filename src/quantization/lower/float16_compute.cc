#include "quantization/lower/float16_compute.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/type_variables.h"
#include "quantization/arithmetic/halves.h"
#include "quantization/improve/graph_edit.h"

namespace seqto::internal {
namespace {

// They give the same values whether they run before or after rounding to float16.
constexpr std::array<std::string_view, 22> kExact{
    "Abs",   "Concat",  "DepthToSpace", "Expand",    "Flatten",   "Gather",        "GlobalMaxPool", "Identity",
    "Max",   "MaxPool", "Min",          "Neg",       "Relu",      "Reshape",       "Slice",         "SpaceToDepth",
    "Split", "Squeeze", "Tile",         "Transpose", "Unsqueeze", "GatherElements"};

bool is_exact(const Node& node) {
  return node.domain.empty() && std::find(kExact.begin(), kExact.end(), node.op_type) != kExact.end();
}

// Nodes that take either type and give no float: they read what there is.
bool is_indifferent(const Node& node) { return node.op_type == "Shape" || node.op_type == "Size"; }

bool has_subgraph(const Node& node) {
  return std::any_of(node.attributes.begin(), node.attributes.end(),
                     [](const Attribute& a) { return std::holds_alternative<OpaqueAttribute>(a.value); });
}

class HalfWriter {
 public:
  HalfWriter(const Model& model, const Float16Options& options, WeightCache& cache, std::vector<std::string>& notes)
      : edit_(model), index_(model), options_(options), cache_(cache), notes_(notes) {}

  Model write(const LayerSet& layers) {
    find_variables(layers);
    join_exact_layers();
    find_float_reads();
    std::vector<Node> old = std::move(edit_.nodes());
    nodes_.clear();
    graph_inputs();
    for (size_t i = 0; i < old.size(); ++i) rewrite(std::move(old[i]), i);
    graph_outputs();
    edit_.nodes() = std::move(nodes_);
    Model result = edit_.finish();
    retype(result.graph);
    return result;
  }

 private:
  // --- which nodes compute in float16

  bool is_float(const std::string& tensor) const {
    if (floats_.contains(tensor)) return true;
    auto it = index_.types.find(tensor);
    return it != index_.types.end() && it->second == DataType::kFloat;
  }

  // The type variables of a node that are float now and may become float16.
  std::vector<TypeVariable> float_variables(const Node& node) const {
    if (node.op_type == "QuantizeLinear" || node.op_type == "DequantizeLinear" || has_subgraph(node)) return {};
    auto variables = float16_variables(node, index_.opset);
    std::erase_if(variables, [&](const TypeVariable& v) {
      return !std::all_of(v.inputs.begin(), v.inputs.end(), [&](size_t i) { return is_float(node.inputs[i]); });
    });
    return variables;
  }

  bool is_blocked(const Node& node) const {
    const auto& blocked = options_.op_block_list;
    return std::find(blocked.begin(), blocked.end(), node.op_type) != blocked.end();
  }

  void find_variables(const LayerSet& layers) {
    for (const Node& node : edit_.nodes()) {
      if (node.op_type == "Constant" && edit_.constant(node.outputs[0]) &&
          edit_.constant(node.outputs[0])->type() == DataType::kFloat)
        floats_.insert(node.outputs[0]);
      auto variables = float_variables(node);
      // Shape inference may have given up; what a float goes into comes out as float.
      for (const TypeVariable& v : variables)
        for (size_t o : v.outputs) floats_.insert(node.outputs[o]);
      bool gives_float =
          std::any_of(variables.begin(), variables.end(), [](const auto& v) { return !v.outputs.empty(); });
      bool half = layers.contains(node.name) && gives_float;
      if (half && is_blocked(node)) {
        notes_.push_back(fmt::format("layer '{}' stays float: {} is in the block list", node.name, node.op_type));
        half = false;
      }
      selected_.push_back(half);
      variables_.push_back(std::move(variables));
    }
  }

  void join_exact_layers() {
    std::unordered_set<std::string> halves;
    std::vector<bool> could(selected_.size());
    const auto& nodes = edit_.nodes();
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (!selected_[i] && is_exact(nodes[i]) && !is_blocked(nodes[i]) && !variables_[i].empty()) {
        could[i] = true;
        for (const TypeVariable& v : variables_[i])
          for (size_t k : v.inputs) could[i] = could[i] && halves.contains(nodes[i].inputs[k]);
      }
      if (selected_[i] || could[i])
        for (const TypeVariable& v : variables_[i])
          for (size_t o : v.outputs) halves.insert(nodes[i].outputs[o]);
    }
    std::unordered_set<std::string> wanted;
    for (size_t i = nodes.size(); i-- > 0;) {
      if (could[i])
        for (const auto& output : nodes[i].outputs) selected_[i] = selected_[i] || wanted.contains(output);
      if (selected_[i])
        for (const TypeVariable& v : variables_[i])
          for (size_t k : v.inputs) wanted.insert(nodes[i].inputs[k]);
    }
  }

  // --- which tensors are needed as float

  std::unordered_set<size_t> half_inputs(size_t node) const {
    std::unordered_set<size_t> inputs;
    if (selected_[node])
      for (const TypeVariable& v : variables_[node]) inputs.insert(v.inputs.begin(), v.inputs.end());
    return inputs;
  }

  void find_float_reads() {
    const auto& nodes = edit_.nodes();
    for (size_t i = 0; i < nodes.size(); ++i) {
      auto half = half_inputs(i);
      if (is_indifferent(nodes[i])) continue;
      for (size_t k = 0; k < nodes[i].inputs.size(); ++k)
        if (!half.contains(k)) read_as_float_.insert(nodes[i].inputs[k]);
    }
    read_as_float_.insert(index_.captured.begin(), index_.captured.end());
    if (options_.keep_io_types) read_as_float_.insert(index_.outputs.begin(), index_.outputs.end());
  }

  // --- the new graph

  static std::vector<Attribute> to(DataType type) { return {{"to", static_cast<int64_t>(type)}}; }

  void cast(const std::string& from, const std::string& target, DataType type) {
    nodes_.push_back({edit_.fresh(target + "_cast"), "Cast", "", {from}, {target}, to(type), {}});
  }

  // A tensor that a subgraph captures keeps its name and type.
  bool becomes_half_io(const std::string& tensor) const {
    return !options_.keep_io_types && is_float(tensor) && !index_.captured.contains(tensor);
  }

  void graph_inputs() {
    for (const ValueInfo& v : edit_.model().graph.inputs) {
      if (index_.is_initializer(v.name) || !becomes_half_io(v.name)) continue;
      half_[v.name] = v.name;
      retyped_.insert(v.name);
      if (!read_as_float_.contains(v.name)) continue;
      renamed_[v.name] = edit_.fresh(v.name + "_float");
      cast(v.name, renamed_[v.name], DataType::kFloat);
    }
  }

  // Outputs of layers that stayed float become float16 here.
  void graph_outputs() {
    for (const ValueInfo& v : edit_.model().graph.outputs) {
      auto it = renamed_.find(v.name);
      if (it != renamed_.end() && !half_.contains(v.name)) {
        cast(it->second, v.name, DataType::kFloat16);
        retyped_.insert(v.name);
      }
    }
  }

  std::string as_half(const std::string& tensor) {
    auto [it, is_new] = half_.try_emplace(tensor);
    if (!is_new) return it->second;
    if (const Tensor* constant = edit_.constant(tensor)) {
      const auto& made = cache_.tensors("float16 compute\n" + tensor,
                                        [&] { return std::vector{to_halves(tensor, *constant, options_, notes_)}; });
      return it->second = edit_.add(tensor + "_float16", made[0]);
    }
    it->second = edit_.fresh(tensor + "_float16");
    cast(as_float(tensor), it->second, DataType::kFloat16);
    return it->second;
  }

  std::string as_float(const std::string& tensor) const {
    auto it = renamed_.find(tensor);
    return it == renamed_.end() ? tensor : it->second;
  }

  void rewrite(Node node, size_t i) {
    auto half = half_inputs(i);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      std::string& input = node.inputs[k];
      if (input.empty()) continue;
      bool either = is_indifferent(node) && half_.contains(input) && !read_as_float_.contains(input);
      input = half.contains(k) || either ? as_half(input) : as_float(input);
    }
    if (!selected_[i]) return keep_outputs(std::move(node));
    std::vector<std::pair<std::string, std::string>> casts;
    for (const TypeVariable& v : variables_[i])
      for (size_t o : v.outputs) write_half(node.outputs[o], casts);
    nodes_.push_back(std::move(node));
    for (const auto& [from, target] : casts) cast(from, target, DataType::kFloat);
  }

  void keep_outputs(Node node) {
    for (std::string& output : node.outputs)
      if (index_.outputs.contains(output) && becomes_half_io(output)) {
        renamed_[output] = edit_.fresh(output + "_float");
        output = renamed_[output];
      }
    nodes_.push_back(std::move(node));
  }

  // The output keeps its name where nothing needs it as float.
  void write_half(std::string& output, std::vector<std::pair<std::string, std::string>>& casts) {
    std::string tensor = output;
    bool half_io = index_.outputs.contains(tensor) && becomes_half_io(tensor);
    if (!read_as_float_.contains(tensor) || half_io) {
      retyped_.insert(tensor);
      half_[tensor] = tensor;
      if (!read_as_float_.contains(tensor)) return;
      renamed_[tensor] = edit_.fresh(tensor + "_float");
      casts.emplace_back(tensor, renamed_[tensor]);
      return;
    }
    output = half_[tensor] = edit_.fresh(tensor + "_float16");
    casts.emplace_back(output, tensor);
  }

  void retype(Graph& graph) const {
    for (auto* list : {&graph.inputs, &graph.outputs, &graph.value_info})
      for (ValueInfo& v : *list)
        if (retyped_.contains(v.name)) v.type = DataType::kFloat16, v.proto.clear();
  }

  GraphEdit edit_;
  GraphView index_;
  const Float16Options& options_;
  WeightCache& cache_;
  std::vector<std::string>& notes_;
  std::vector<bool> selected_;  // computes in float16
  std::vector<std::vector<TypeVariable>> variables_;
  std::unordered_set<std::string> floats_, read_as_float_, retyped_;
  std::unordered_map<std::string, std::string> half_, renamed_;  // tensor -> its float16, float name where it has one
  std::vector<Node> nodes_;
};

}  // namespace

Model compute_in_float16(const Model& model, const LayerSet& layers, const Float16Options& options, WeightCache& cache,
                         std::vector<std::string>& notes) {
  return HalfWriter(model, options, cache, notes).write(layers);
}

}  // namespace seqto::internal
