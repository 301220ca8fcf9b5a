// What depends on all readers of a tensor, or on what the runtime cannot load: blocks, axes that a user asked for,
// 4-bit activations behind Relu, Clip and MaxPool.
#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "model/op_traits.h"
#include "quantization/encode/marks.h"
#include "quantization/plan/overrides.h"

namespace seqto::internal {

bool fuses_8_bits(const QuantizeOptions& options, const std::string& activation, const std::string& weight) {
  return is_8_bits(activation_type_of(options, activation)) && is_8_bits(weight_type_of(options, weight));
}

bool left_operand_runs(const QuantizeOptions& options, const std::string& weight, const std::string& activation) {
  return !fuses_8_bits(options, activation, weight) || weight_type_of(options, weight) == DataType::kInt8;
}

namespace {

class Settler {
 public:
  Settler(Marks& marks, const GraphView& index, const QuantizeOptions& options)
      : marks_(marks), index_(index), options_(options) {}

  void run(const std::vector<bool>& selected) {
    if (uses_blocks(options_)) block_weights();
    for (size_t i = 0; i < selected.size(); ++i)
      if (!marks_.removed[i] && (selected[i] || is_fused(marks_.nodes[i]))) settle(marks_.nodes[i]);
    if (uses_4_bits(options_)) settle_activations();
    if (index_.opset >= 21 && !in_contrib_domain(options_, index_.opset)) follow_moved_pairs();
  }

 private:
  void block_weights() {
    marks_.tensors.for_each([&](const std::string& name, Mark& mark) {
      auto it = index_.initializers.find(name);
      const auto* overrides = overrides_of(options_, name);
      if (!mark.weight || it == index_.initializers.end() || (overrides && overrides->front().scale) ||
          block_size_of(options_, name) == 0)
        return;
      // DequantizeLinear of com.microsoft has no blocks.
      mark.blocked = it->second->dims().size() == 2 && !options_.use_qdq_contrib_ops;
      if (!mark.blocked) marks_.deviate("D36");  // onnxruntime stops here
    });
  }

  // The runtime's optimizer stops at Relu and Clip before a QuantizeLinear of 4 bits, and moves one from before MaxPool
  // to behind it, for which there is no kernel. It brings them there through operators that only move values. Behind
  // an integer Conv it moves a Transpose through the second pair of a conversion to 4 bits.
  void settle_activations() {
    edges_.emplace(marks_.nodes, std::span<const ValueInfo>{}, marks_.removed);
    for (const Node& n : marks_.nodes) {
      if (marks_.removed[edges_->place(n)]) continue;
      bool pool = is_max_pool(n);
      if (is_conv(n) && is_8_bits(activation_type_of(options_, n.outputs[0]))) leave_4_bits(n.outputs[0], n);
      if (is_conv(n) && n.inputs.size() > 1 && !is_4_bit_weight(n.inputs[1]) && comes_in_4_bits(n.inputs[0]))
        leave_behind(n.outputs[0], n);
      if ((!pool && !has(n, kClips)) || n.inputs.empty() || n.outputs.empty()) continue;
      if (pool) leave_before(n.inputs[0], n);
      leave_behind(n.outputs[0], n);
    }
  }

  // Between pairs of 4 bits the runtime makes an integer Conv, for which it has no such types, unless the weight has 4
  // bits too. It quantizes a float weight itself.
  bool is_4_bit_weight(const std::string& weight) {
    return marks_.tensors.contains(weight) && is_4_bits(weight_type_of(options_, weight));
  }

  bool comes_in_4_bits(const std::string& tensor) {
    if (marks_.tensors.contains(tensor)) return has_4_bits(tensor);
    const Node* producer = edges_->producer(tensor);
    return producer && moves_values(*producer) && comes_in_4_bits(producer->inputs[0]);
  }

  // From behind an int8 pair to behind an operator that only moves values the runtime takes a pair of its own, with an
  // output_dtype that it forgets to change when it makes uint8 of int8 (its opsets 21 and up). With a pair there it
  // adds none, and the values are the same.
  void follow_moved_pairs() {
    for (size_t i = 0; i < marks_.nodes.size(); ++i) {
      const Node& n = marks_.nodes[i];
      if (marks_.removed[i] || !(moves_values(n) || is_max_pool(n)) || n.inputs.empty() || n.outputs.empty()) continue;
      const Mark* mark = marks_.tensors.find(n.inputs[0]);
      const std::string& output = n.outputs[0];
      if (!mark || mark->weight || index_.is_initializer(n.inputs[0]) || marks_.tensors.contains(output)) continue;
      // What moves values keeps their type, also where shape inference did not tell it.
      if (index_.types.contains(output) && !index_.is_float(output)) continue;
      const bool is_int8 = has_type(n.inputs[0], [](DataType t) { return t == DataType::kInt8; });
      if (index_.pairs.contains(output) || !is_int8) continue;
      marks_.tensors.set(output, {.provider = n.inputs[0], .provider_node = n.name});
      marks_.deviate("D54", n.name);
    }
  }

  // Left alone, but quantized on all sides by its neighbours: the runtime makes an integer operator of it all the same.
  bool is_fused(const Node& n) const {
    auto marked = [&](const std::string& name) { return !index_.is_float(name) || marks_.tensors.contains(name); };
    return !n.outputs.empty() && std::ranges::all_of(n.inputs, marked) && std::ranges::all_of(n.outputs, marked);
  }

  void leave_before(const std::string& tensor, const Node& n) {
    leave_4_bits(tensor, n);
    if (const Node* producer = edges_->producer(tensor); producer && moves_values(*producer))
      leave_before(producer->inputs[0], n);
  }

  void leave_behind(const std::string& tensor, const Node& n) {
    leave_4_bits(tensor, n);
    for (const Node* reader : edges_->readers(tensor))
      if (reader->inputs[0] == tensor && (moves_values(*reader) || is_max_pool(*reader)))
        leave_behind(reader->outputs[0], n);
  }

  void leave_4_bits(const std::string& tensor, const Node& n) {
    if (!marks_.tensors.contains(tensor) || index_.is_initializer(tensor) || !has_4_bits(tensor)) return;
    marks_.tensors.erase(tensor);
    marks_.deviate("D37", n.name);
  }

  // `is` holds for the type that the tensor's parameters have, or the one that some readers get.
  template <class F>
  bool has_type(std::string tensor, F is) {
    tensor = owner(std::move(tensor));
    const auto* overrides = overrides_of(options_, tensor);
    if (overrides && overrides->front().convert && is(*overrides->front().convert->quant_type)) return true;
    return is(activation_type_of(options_, tensor));
  }
  bool has_4_bits(const std::string& tensor) { return has_type(tensor, is_4_bits); }

  void settle(const Node& n) {
    bool matmul = is_matmul(n);
    if (!matmul && !is_conv(n) && !is_gemm(n)) return settle_constants(n);
    if (n.inputs.size() < 2) return;
    if (matmul) settle_blocks(n, n.inputs[0], n.inputs[1]);
    if (matmul) settle_blocks(n, n.inputs[1], n.inputs[0]);
    if (matmul) settle_left_operand(n);
    if (!index_.is_initializer(n.inputs[1])) return;
    Mark* mark = marks_.tensors.find(n.inputs[1]);
    if (!mark || !mark->provider.empty() || !fuses_8_bits(options_, owner(n.inputs[0]), n.inputs[1])) return;
    auto axis = final_axis(n.inputs[1], *mark);
    if (!axis || mark->blocked || *axis == output_axis(n)) return;
    if (options_.compat_onnxruntime && runs_with(n, *axis)) return;
    mark->whole = true;  // the runtime's integer kernels take the scales for those of the output's channels
    marks_.deviate("D35", n.name);
  }

  // The runtime's integer Add, Mul, Concat ... take one scale an input.
  void settle_constants(const Node& n) {
    if (has(n, kFollowsAxis) || !is_8_bits(options_.activation_type)) return;
    for (const auto& name : n.inputs) {
      Mark* mark = index_.is_initializer(name) ? marks_.tensors.find(name) : nullptr;
      if (!mark || !mark->provider.empty() || (!mark->blocked && !final_axis(name, *mark))) continue;
      DataType type = mark->weight ? weight_type_of(options_, name) : activation_type_of(options_, name);
      if (!is_8_bits(type)) continue;
      mark->whole = true;
      mark->blocked = false;
      marks_.deviate("D35", n.name);
    }
  }

  // The tensor whose parameters this one has.
  std::string owner(std::string tensor) {
    for (Mark* mark = marks_.tensors.find(tensor); mark && !mark->provider.empty(); mark = marks_.tensors.find(tensor))
      tensor = mark->provider;
    return tensor;
  }

  // The runtime's integer MatMul takes a constant of uint8 on the left, with one scale.
  void settle_left_operand(const Node& n) {
    Mark* mark = index_.is_initializer(n.inputs[0]) ? marks_.tensors.find(n.inputs[0]) : nullptr;
    if (!mark || !mark->provider.empty() || !final_axis(n.inputs[0], *mark)) return;
    if (left_operand_runs(options_, n.inputs[0], owner(n.inputs[1]))) return;
    mark->whole = true;
    marks_.deviate("D35", n.name);
  }

  // The runtime's integer MatMul has no blocks and fails.
  void settle_blocks(const Node& n, const std::string& weight, const std::string& other) {
    Mark* mark = marks_.tensors.find(weight);
    if (!mark || !mark->blocked || !fuses_8_bits(options_, owner(other), weight)) return;
    mark->blocked = false;
    marks_.deviate("D36", n.name);
  }

  std::optional<int64_t> final_axis(const std::string& name, const Mark& mark) const {
    const auto* overrides = overrides_of(options_, name);
    if (mark.whole) return {};
    if (overrides && overrides->front().axis)
      return normalized_axis(*overrides->front().axis, index_.initializers.at(name)->dims().size());
    return mark.axis;
  }

  int64_t output_axis(const Node& n) const {
    if (is_conv(n)) return 0;
    if (is_gemm(n)) return n.int_attribute("transB", 0) > 0 ? 0 : 1;
    return index_.initializers.at(n.inputs[1])->dims().size() == 2 ? 1 : -1;
  }

  // Wrong results where both axes have the same size, an error where not, except in Gemm.
  bool runs_with(const Node& n, int64_t axis) const {
    const auto& dims = index_.initializers.at(n.inputs[1])->dims();
    int64_t output = output_axis(n);
    if (is_gemm(n)) return true;
    return output >= 0 && dims[static_cast<size_t>(axis)] == dims[static_cast<size_t>(output)];
  }

  Marks& marks_;
  const GraphView& index_;
  const QuantizeOptions& options_;
  std::optional<Edges> edges_;  // that marking left
};

}  // namespace

void settle_weights(Marks& marks, const GraphView& index, const std::vector<bool>& selected,
                    const QuantizeOptions& options) {
  Settler(marks, index, options).run(selected);
}

}  // namespace seqto::internal
