// The op rules. Section numbers and ids (D1 ...) are those of docs/reference/compatibility.md.
#include <algorithm>
#include <charconv>
#include <map>

#include "quantization/arithmetic/arithmetic.h"
#include "quantization/calibration/clip_bounds.h"
#include "quantization/encode/float_results.h"
#include "quantization/encode/marks.h"
#include "quantization/plan/overrides.h"

namespace seqto::internal {
namespace {

class Marker {
 public:
  Marker(const Model& model, const GraphView& index, const QuantizeOptions& options, const BoundsOf& bounds)
      : model_(model), index_(index), options_(options), bounds_(bounds) {
    marks_.nodes = model.graph.nodes;
    marks_.removed.assign(marks_.nodes.size(), false);
  }

  Marks run(const std::vector<bool>& selected) {
    selected_ = &selected;
    for (size_t i = 0; i < marks_.nodes.size(); ++i)
      for (const auto& name : marks_.nodes[i].inputs)
        if (auto pair = index_.pairs.find(name); selected[i] && pair != index_.pairs.end())
          shared_pairs_.insert(pair->second);
    for (size_t i = 0; i < marks_.nodes.size(); ++i) {
      if (!selected[i]) continue;
      mark_node(i);
      for (const auto& name : node(i).inputs) marks_.receivers[name].push_back(i);
    }
    settle_weights(marks_, index_, selected, options_);
    return std::move(marks_);
  }

 private:
  using Rule = void (Marker::*)(size_t);

  void mark_node(size_t i) {
    static const std::map<std::string_view, Rule> kRules{
        {"Conv", &Marker::mark_conv},
        {"ConvTranspose", &Marker::mark_conv},
        {"Gemm", &Marker::mark_gemm},
        {"MatMul", &Marker::mark_matmul},
        {"Add", &Marker::mark_add},
        {"Clip", &Marker::mark_removable},
        {"Relu", &Marker::mark_removable},
        {"Reshape", &Marker::mark_pass_through},
        {"Transpose", &Marker::mark_pass_through},
        {"Squeeze", &Marker::mark_pass_through},
        {"Unsqueeze", &Marker::mark_pass_through},
        {"Flatten", &Marker::mark_pass_through},
        {"AveragePool", &Marker::mark_pass_through},
        {"Slice", &Marker::mark_pass_through},
        {"TopK", &Marker::mark_pass_through},
        {"Resize", &Marker::mark_pass_through},
        {"MaxPool", &Marker::mark_pass_through},
        {"Split", &Marker::mark_split},
        {"Gather", &Marker::mark_gather},
        {"GatherElements", &Marker::mark_gather},
        {"Pad", &Marker::mark_pad},
        {"Where", &Marker::mark_where},
        {"InstanceNormalization", &Marker::mark_normalization},
        {"LayerNormalization", &Marker::mark_normalization},
        {"BatchNormalization", &Marker::mark_normalization},
    };
    current_ = node(i).name;
    read_existing_pairs(i);
    auto it = kRules.find(node(i).op_type);
    if (it != kRules.end()) (this->*it->second)(i);
    else mark_generic(i);
  }

  // What the model quantizes already stays as it is: its readers take it from there, and it gets no second pair.
  void read_existing_pairs(size_t i) {
    for (auto& name : node(i).inputs)
      if (auto pair = index_.pairs.find(name); pair != index_.pairs.end()) {
        name = pair->second;
        deviate("D41");
      }
  }
  bool has_pair(const std::string& name) {
    bool has = index_.pairs.contains(name);
    if (has) deviate("D41");
    return has;
  }

  // --- marks

  void activation(const std::string& name) {
    if (has_pair(name)) return;
    if (index_.is_float(name) && !marks_.tensors.contains(name)) marks_.tensors.set(name, {});
  }
  void weight(const std::string& name) {
    if (index_.is_float(name) && !marks_.tensors.contains(name)) marks_.tensors.set(name, {.weight = true});
  }
  void weight_per_channel(const std::string& name, int64_t axis) {
    auto it = index_.initializers.find(name);
    if (it != index_.initializers.end() && it->second->is_float())
      marks_.tensors.set(name, {.weight = true, .axis = axis});
  }
  void same_as(const std::string& output, const std::string& input, const Node& n) {
    if (has_pair(output)) return;
    if (index_.is_float(output)) marks_.tensors.set(output, {.provider = input, .provider_node = n.name});
  }
  bool is_marked(const std::string& name) const {
    return marks_.tensors.contains(name) || marked_biases_.contains(name);
  }
  void outputs(const Node& n) {
    if (!excludes_output(n))
      for (const auto& o : n.outputs) activation(o);
  }

  // --- rules

  void mark_generic(size_t i) {
    for (const auto& name : node(i).inputs) activation(name);
    outputs(node(i));
  }

  void mark_add(size_t i) {
    const Node& n = node(i);
    const auto on_codes = [&](const Node& node) { return bool{(*selected_)[index_.edges.place(node)]}; };
    const auto joins = [&](const std::string& name) { return is_for_one_reader(name, index_, on_codes); };
    const auto joined = options_.add_joins_product ? std::ranges::find_if(n.inputs, joins) : n.inputs.end();
    if (joined == n.inputs.end()) return mark_generic(i);
    for (auto name = n.inputs.begin(); name != n.inputs.end(); ++name)
      if (name != joined && !index_.constant(*name)) activation(*name);
    outputs(n);
  }

  void mark_conv(size_t i) {
    const Node& n = node(i);
    if (n.inputs.size() < 2) return;
    activation(n.inputs[0]);
    if (!excludes_output(n)) activation(n.outputs[0]);
    bool transpose = is_conv_transpose(n);
    auto axis = channel_axis(n.inputs[1], transpose ? 1 : 0);
    if (axis && transpose && n.inputs.size() == 3 && n.int_attribute("group", 1) > 1) {
      // The bias has a value for every output channel of every group, the weight's axis 1 only for those of one.
      axis.reset();
      deviate("D13");
    }
    if (axis) weight_per_channel(n.inputs[1], *axis);
    else weight(n.inputs[1]);
    if (n.inputs.size() == 3) bias(i, n.inputs[2], n.inputs[0], n.inputs[1]);
  }

  void mark_gemm(size_t i) {
    const Node& n = node(i);
    activation(n.inputs[0]);
    if (!excludes_output(n)) activation(n.outputs[0]);
    const int64_t columns_axis = n.int_attribute("transB", 0) > 0 ? 0 : 1;
    auto axis = channel_axis(n.inputs[1], columns_axis);
    if (axis) weight_per_channel(n.inputs[1], *axis);
    else weight(n.inputs[1]);
    if (n.inputs.size() != 3 || !index_.is_initializer(n.inputs[2])) return;
    int64_t columns = 0;
    if (axis && !overrides_of(options_, n.inputs[2])) {
      const auto& dims = index_.initializers.at(n.inputs[2])->dims();
      const auto& weight_dims = index_.initializers.at(n.inputs[1])->dims();
      const int64_t channels = weight_dims[static_cast<size_t>(*axis)];
      if (dims != std::vector<int64_t>{channels}) {
        int64_t count = index_.initializers.at(n.inputs[2])->element_count();
        bool row = (count == channels && !dims.empty() && dims.back() == channels) || count == 1;
        if (options_.quantize_bias || options_.adjust_weight_scale_for_bias) deviate("D15");
        if (!row) return;  // a value for every row: C stays float, with its beta
        columns = weight_dims[static_cast<size_t>(columns_axis)];
      }
    }
    std::string input = n.inputs[0], weight_name = n.inputs[1], original = n.inputs[2];
    std::string actual = bias(i, original, input, weight_name);
    if (!actual.empty()) marks_.biases.back().columns = columns;
    // Spread to a row for this layer alone: another reader may need the shape as it is.
    if (columns > 0 && actual == original && options_.quantize_bias && index_.read_count(original) > 1)
      actual = own_copy(i, actual);
    float beta = node(i).float_attribute("beta", 1.0f);
    if (beta == 1.0f) return;
    // onnxruntime resets beta to 1 and quantizes C unscaled; we scale C.
    if (options_.compat_onnxruntime) {
      if (!actual.empty()) marks_.biases.back().multiplier = beta;
      node(i).set_attribute({"beta", 1.0f});
      return;
    }
    deviate("D1");
    if (actual.empty()) return;  // C has parameters of its own, or stays float: beta does its work
    bool shared = actual == original && (!options_.quantize_bias || index_.read_count(original) > 1);
    if (shared) actual = own_copy(i, actual);
    marks_.beta[actual] = beta;
    node(i).set_attribute({"beta", 1.0f});
  }

  void mark_matmul(size_t i) {
    const Node& n = node(i);
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      const std::string& name = n.inputs[k];
      if (!index_.is_initializer(name)) {
        activation(name);
        continue;
      }
      auto axis = channel_axis(name, 1, n.op_type);
      bool asked = options_.op_type_per_channel_axis.contains(n.op_type) || has_own_axis(name);
      bool columns_of_b = k == 1 && index_.initializers.at(name)->dims().size() == 2;
      bool runs =
          k == 0 ? left_operand_runs(options_, name, n.inputs.back()) : !fuses_8_bits(options_, n.inputs[0], name);
      if (axis && !columns_of_b && !asked && !(options_.compat_onnxruntime && runs)) {
        axis.reset();  // axis 1 would be the reduction's
        deviate("D14");
      }
      if (axis) weight_per_channel(name, *axis);
      else weight(name);
    }
    outputs(n);
  }

  // Relu and Clip need no node of their own when the quantized range ends where they clip.
  void mark_removable(size_t i) {
    const Node& n = node(i);
    std::string input = n.inputs[0], output = n.outputs[0];
    if (!is_marked(input)) return;
    if (!options_.symmetric_activations && !options_.keep_removable_activations && replaces_upstream(i)) {
      rename_output(input, output);
      marks_.tensors.erase(input);
      marks_.removed[i] = true;
    } else {
      activation(input);
    }
    if (!excludes_output(n)) activation(output);
  }

  // Of the producer; where that was removed itself, what is before it has the name too.
  void rename_output(const std::string& from, const std::string& to) {
    for (const Node* producer = index_.edges.producer(from); producer;) {
      const size_t at = index_.edges.place(*producer);
      std::ranges::replace(node(at).outputs, from, to);
      producer = marks_.removed[at] ? index_.edges.producer(node(at).inputs[0]) : nullptr;
    }
  }

  bool replaces_upstream(size_t i) {
    const Node& n = node(i);
    const std::string &input = n.inputs[0], &output = n.outputs[0];
    auto bounds = bounds_(output);
    auto upstream = bounds_(input);
    if (shared_pairs_.contains(input)) return deviate("D41"), false;  // it has no range of its own, nor needs one
    if (bounds && !bounds->converted && !upstream) return deviate("D12"), false;
    bool possible = bounds && upstream && !bounds->converted && !upstream->converted && index_.read_count(input) == 1 &&
                    !index_.outputs.contains(input) && !index_.inputs.contains(input);
    if (!possible) return false;
    if (index_.captured.contains(input)) return deviate("D33"), false;
    if (has_pair(output)) return false;
    if (options_.compat_onnxruntime) return true;
    if (excludes_output(n)) return deviate("D4"), false;
    if (!within_clip(n, index_, *bounds)) return deviate("D2"), false;
    return true;
  }

  void mark_pass_through(size_t i) {
    const Node& n = node(i);
    if (is_resize(n) && index_.opset < 11) return;
    if (is_max_pool(n) && index_.opset < 12) return;
    if (options_.force_quantize_no_input_check) activation(n.inputs[0]);
    else if (!is_marked(n.inputs[0])) return;
    if (!excludes_output(n)) same_as(n.outputs[0], n.inputs[0], n);
  }

  void mark_split(size_t i) {
    const Node& n = node(i);
    if (!is_marked(n.inputs[0])) activation(n.inputs[0]);
    if (!excludes_output(n))
      for (const auto& o : n.outputs) same_as(o, n.inputs[0], n);
  }

  void mark_gather(size_t i) {
    const Node& n = node(i);
    auto it = index_.initializers.find(n.inputs[0]);
    bool float_weight = it != index_.initializers.end() && it->second->is_float();
    if (float_weight || options_.force_quantize_no_input_check) activation(n.inputs[0]);
    else if (!is_marked(n.inputs[0])) return;
    same_as(n.outputs[0], n.inputs[0], n);
  }

  void mark_pad(size_t i) {
    const Node& n = node(i);
    for (const auto& name : n.inputs) activation(name);
    if (excludes_output(n)) return;
    if (pad_keeps_params(n)) same_as(n.outputs[0], n.inputs[0], n);
    else activation(n.outputs[0]);
  }

  bool pad_keeps_params(const Node& n) {
    std::string mode = n.string_attribute("mode", "constant");
    if (mode == "reflect" || mode == "edge" || mode == "wrap") return true;
    if (mode != "constant") return false;
    // Without a known type onnxruntime does not look at the value; initializers have none in its table.
    if (!index_.types.contains(n.inputs[0]) ||
        (index_.is_initializer(n.inputs[0]) && !index_.inputs.contains(n.inputs[0])))
      return false;
    const bool by_default = index_.opset >= 11 && (n.inputs.size() < 3 || n.inputs[2].empty());
    return by_default ? index_.is_float(n.inputs[0]) : pads_zeros(n, index_);
  }

  void mark_where(size_t i) {
    const Node& n = node(i);
    if (options_.force_quantize_no_input_check) {
      for (size_t k : {1, 2})
        if (!is_marked(n.inputs[k])) activation(n.inputs[k]);
      outputs(n);
    } else if (is_marked(n.inputs[1]) && is_marked(n.inputs[2])) {
      outputs(n);
    }
  }

  void mark_normalization(size_t i) {
    const Node& n = node(i);
    activation(n.inputs[0]);
    auto axis = channel_axis(n.inputs[1], 1, n.op_type);
    bool has_bias = n.inputs.size() > 2 && !n.inputs[2].empty();
    if (axis && has_bias && index_.initializers.at(n.inputs[1])->dims().size() > 1) {
      axis.reset();  // scales of rank 2 and more: the bias has no such axis
      deviate("D15");
    }
    if (axis) weight_per_channel(n.inputs[1], *axis);
    else if (index_.is_initializer(n.inputs[1])) weight(n.inputs[1]);
    else activation(n.inputs[1]);
    if (has_bias) bias(i, n.inputs[2], n.inputs[0], n.inputs[1]);
    outputs(node(i));
  }

  // Returns the initializer that will be quantized, or "" when the bias stays float.
  std::string bias(size_t i, std::string name, const std::string& input, const std::string& weight_name) {
    if (overrides_of(options_, name)) {  // a weight like any other, with the parameters that were asked for
      auto axis = channel_axis(name, 0);
      if (axis) weight_per_channel(name, *axis);
      else weight(name);
      return "";
    }
    auto it = index_.initializers.find(name);
    if (it == index_.initializers.end() || !it->second->is_float()) return "";
    std::string input_copy = input, weight_copy = weight_name;
    if (marked_biases_.contains(name)) {
      std::string original = name;
      name = own_copy(i, name);
      if (node(i).name.empty() && options_.compat_onnxruntime) {
        for (Node& other : marks_.nodes)  // found by its name there, and so is every other unnamed node
          if (other.name.empty()) std::replace(other.inputs.begin(), other.inputs.end(), original, name);
      } else if (node(i).name.empty()) {
        deviate("D9");
      }
    }
    marked_biases_.insert(name);
    marks_.biases.push_back({.bias = name, .node = i, .input = input_copy, .weight = weight_copy});
    return name;
  }

  // A copy of an initializer for one node alone; rewires that node, and the bias mark if there is one.
  std::string own_copy(size_t i, const std::string& name) {
    const Tensor* tensor = nullptr;
    if (auto it = index_.initializers.find(name); it != index_.initializers.end()) tensor = it->second;
    for (const Initializer& n : marks_.new_initializers)
      if (n.name == name) return name;
    int64_t number = largest_suffix(name) + 1;
    // onnxruntime looks at the initializers alone, and a node may write a tensor of that name.
    if (is_taken(name + std::to_string(number))) deviate("D51");
    while (is_taken(name + std::to_string(number))) ++number;
    std::string copy = name + std::to_string(number);
    marks_.new_initializers.push_back({copy, *tensor});
    for (auto& in : node(i).inputs)
      if (in == name) in = copy;
    for (BiasMark& b : marks_.biases)
      if (b.bias == name && b.node == i) {
        b.bias = copy;
        marked_biases_.erase(name);
        marked_biases_.insert(copy);
      }
    return copy;
  }

  bool is_taken(const std::string& name) const {
    return std::ranges::any_of(model_.graph.nodes,
                               [&](const Node& n) { return std::ranges::count(n.outputs, name) > 0; }) ||
           std::ranges::any_of(model_.graph.inputs, [&](const ValueInfo& v) { return v.name == name; });
  }

  int64_t largest_suffix(const std::string& prefix) const {
    int64_t largest = -1;
    auto look = [&](const std::string& name) {
      if (!name.starts_with(prefix)) return;
      int64_t number = 0;
      auto [end, error] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), number);
      if (error == std::errc() && end == name.data() + name.size()) largest = std::max(largest, number);
    };
    for (const Initializer& i : model_.graph.initializers) look(i.name);
    for (const Initializer& i : marks_.new_initializers) look(i.name);
    return largest;
  }

  // --- questions

  // The rule's axis unless the options for its op type say otherwise, or an override of the tensor.
  std::optional<int64_t> channel_axis(const std::string& name, int64_t axis, const std::string& op_type = "") const {
    auto it = index_.initializers.find(name);
    if (it == index_.initializers.end()) return {};
    const auto* overrides = overrides_of(options_, name);
    bool given = overrides && overrides->front().axis;
    // An entry of onnxruntime's without an axis means the tensor as a whole.
    bool per_channel = overrides ? overrides->front().per_channel.value_or(given) : options_.per_channel;
    if (!given && !per_channel) return {};
    auto asked = options_.op_type_per_channel_axis.find(op_type);
    if (asked != options_.op_type_per_channel_axis.end()) axis = asked->second;
    if (given) axis = *overrides->front().axis;
    return normalized_axis(axis, it->second->dims().size());
  }
  bool has_own_axis(const std::string& name) const {
    const auto* overrides = overrides_of(options_, name);
    return overrides && overrides->front().axis;
  }
  bool excludes_output(const Node& n) const {
    if (std::ranges::count(options_.exclude_output_op_types, n.op_type) == 0) return false;
    if (!options_.float_between_products || options_.compat_onnxruntime || !has(n, kProduct)) return true;
    const Node* reader = index_.edges.only_reader(n.outputs[0]);
    return !reader || !(*selected_)[index_.edges.place(*reader)] || !is_clip_of_product(*reader, index_);
  }
  Node& node(size_t i) { return marks_.nodes[i]; }
  void deviate(const char* id) { marks_.deviate(id, current_); }

  const Model& model_;
  const GraphView& index_;
  const QuantizeOptions& options_;
  const BoundsOf& bounds_;
  Marks marks_;
  std::unordered_set<std::string> marked_biases_;
  std::unordered_set<std::string> shared_pairs_;  // outputs of the model's own pairs that layers are led to
  const std::vector<bool>* selected_ = nullptr;
  LayerId current_;  // the layer whose rule runs
};

}  // namespace

Marks mark_tensors(const Model& model, const GraphView& index, const std::vector<bool>& selected,
                   const QuantizeOptions& options, const BoundsOf& bounds) {
  return Marker(model, index, options, bounds).run(selected);
}

}  // namespace seqto::internal
