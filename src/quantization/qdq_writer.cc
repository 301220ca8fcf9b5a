#include "quantization/qdq_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/float16.h"
#include "model/sort_nodes.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

Tensor scale_tensor(const std::vector<float>& values, std::vector<int64_t> dims, DataType type) {
  if (type != DataType::kFloat16) return float_tensor(std::move(dims), values);
  std::vector<uint16_t> halves;
  for (float v : values) halves.push_back(float_to_half(v));
  return Tensor::from(DataType::kFloat16, std::move(dims), std::move(halves));
}

Tensor zero_point_tensor(const QuantParams& params, std::vector<int64_t> dims) {
  auto as = [&]<class T>(T) {
    return Tensor::from(params.type, dims, std::vector<T>(params.zero_point.begin(), params.zero_point.end()));
  };
  switch (params.type) {
    case DataType::kInt8:
      return as(int8_t{});
    case DataType::kUint8:
      return as(uint8_t{});
    case DataType::kInt16:
      return as(int16_t{});
    default:
      return as(uint16_t{});
  }
}

class Writer {
 public:
  Writer(const Model& model, const GraphIndex& index, Marks& marks, const RangeView& ranges,
         const QuantizeOptions& options, WeightCache& cache)
      : model_(model), index_(index), marks_(marks), ranges_(ranges), options_(options), cache_(cache) {
    for (size_t i = 0; i < marks_.nodes.size(); ++i) {
      for (const auto& name : marks_.nodes[i].inputs)
        if (!name.empty()) readers_[name].push_back(i);
      for (const auto& name : marks_.nodes[i].outputs)
        if (!name.empty()) producers_[name].push_back(i);
    }
  }

  Model run() {
    compute_weight_params();
    if (options_.adjust_weight_scale_for_bias) adjust_weights();
    write_own_params();
    write_shared_params();
    write_biases();
    return assemble();
  }

 private:
  struct Quantized {
    std::string scale, zero_point;  // initializers
    QuantParams params;
  };

  // --- parameters

  void compute_weight_params() {
    marks_.tensors.for_each([&](const std::string& name, const Mark& mark) {
      auto it = index_.initializers.find(name);
      if (it == index_.initializers.end()) return;
      WeightRule rule;
      rule.type = mark.weight ? options_.weight_type : options_.activation_type;
      bool signed_type = rule.type == DataType::kInt8 || rule.type == DataType::kInt16;
      rule.symmetric = mark.axis || (mark.weight ? options_.symmetric_weights.value_or(signed_type)
                                                 : options_.symmetric_activations);
      rule.reduce_range = options_.reduce_range;
      rule.min_real_range = options_.min_real_range;
      rule.axis = mark.axis;
      weights_[name] = cache_.params(name, *it->second, rule);
    });
  }

  void adjust_weights() {
    for (const BiasMark& bias : marks_.biases) {
      const Range* range = ranges_.find(bias.input);
      auto weight = weights_.find(bias.weight);
      if (!range || !marks_.tensors.contains(bias.input) || weight == weights_.end()) continue;
      QuantParams& params = weight->second;
      bool signed_type = params.type == DataType::kInt8 || params.type == DataType::kInt16;
      bool all_zero = std::all_of(params.zero_point.begin(), params.zero_point.end(), [](int32_t z) { return z == 0; });
      if (!signed_type || !all_zero) continue;
      float input_scale = activation_params(*range, options_).scale[0];
      adjust_weight_scale_for_bias(bias_values(bias), input_scale, params);
    }
  }

  // --- tensors

  void write_own_params() {
    std::vector<std::pair<std::string, Mark>> own;
    marks_.tensors.for_each([&](const std::string& name, const Mark& mark) {
      if (mark.provider.empty()) own.emplace_back(name, mark);
    });
    for (const auto& [name, mark] : own) {
      if (index_.is_initializer(name)) write_weight(name);
      else if (!index_.dequantized.contains(name)) write_activation(name);
    }
  }

  void write_weight(const std::string& name) {
    const QuantParams& params = weights_.at(name);
    const Tensor& weight = *index_.initializers.at(name);
    Quantized q = add_params(name, params, weight.type());
    std::string output = name + "_DequantizeLinear_Output";
    replace_inputs(name, output);
    if (options_.add_qdq_pair_to_weight) {
      std::string code = name + "_QuantizeLinear_Output";
      add_linear("QuantizeLinear", name, code, name + "_QuantizeLinear", q);
      add_linear("DequantizeLinear", code, output, name + "_DequantizeLinear", q);
    } else {
      std::string code = name + "_quantized";
      added_.push_back({code, cache_.quantized(name, weight, params)});
      add_linear("DequantizeLinear", code, output, name + "_DequantizeLinear", q);
    }
    values_[name] = std::move(q);
  }

  void write_activation(const std::string& name) {
    const Range* range = ranges_.find(name);
    if (!range)
      throw Error(
          Code::kInvalidInput,
          fmt::format("[quantize] no range for tensor '{}' found; every input and output of a quantized layer needs "
                      "one; calibrate this model again",
                      name));
    auto type = index_.types.find(name);
    Quantized q = add_params(name, activation_params(*range, options_),
                             type == index_.types.end() ? DataType::kFloat : type->second);
    write_pair(name, q);
    values_[name] = std::move(q);
  }

  void write_pair(const std::string& name, const Quantized& q) {
    std::string input = name, output = name + "_DequantizeLinear_Output";
    if (index_.outputs.contains(name)) {
      input = name + "_QuantizeLinear_Input";
      output = name;
      replace_outputs(name, input);
    } else {
      replace_inputs(name, output);
    }
    std::string code = name + "_QuantizeLinear_Output";
    add_linear("QuantizeLinear", input, code, name + "_QuantizeLinear", q);
    add_linear("DequantizeLinear", code, output, name + "_DequantizeLinear", q);
  }

  void write_shared_params() {
    std::vector<std::pair<std::string, Mark>> left;
    marks_.tensors.for_each([&](const std::string& name, const Mark& mark) {
      if (!mark.provider.empty()) left.emplace_back(name, mark);
    });
    while (!left.empty()) {
      std::vector<std::pair<std::string, Mark>> waiting;
      for (auto& [name, mark] : left) {
        auto provider = values_.find(mark.provider);
        if (provider == values_.end()) {
          waiting.emplace_back(name, mark);
        } else if (provider->second.params.axis) {
          // A vector of scales makes no sense on another tensor.
          marks_.deviate("D18");
          write_activation(name);
        } else {
          Quantized shared = provider->second;
          write_pair(name, shared);
          values_[name] = std::move(shared);
        }
      }
      if (waiting.size() == left.size()) {
        // The provider is never quantized (its type is unknown, or it is dequantized already): stand alone.
        marks_.deviate("D5");
        auto first = waiting.front().first;
        waiting.erase(waiting.begin());
        if (ranges_.find(first) && !index_.dequantized.contains(first)) write_activation(first);
      }
      left = std::move(waiting);
    }
  }

  // --- biases

  std::vector<float> bias_values(const BiasMark& bias) const {
    std::vector<float> values = to_floats(bias_tensor(bias.bias));
    if (auto it = marks_.beta.find(bias.bias); it != marks_.beta.end())
      for (float& v : values) v *= it->second;
    auto weight = weights_.find(bias.weight);
    if (bias.broadcast && weight != weights_.end() && values.size() == 1)
      values.assign(weight->second.scale.size(), values[0]);
    return values;
  }

  const Tensor& bias_tensor(const std::string& name) const {
    for (const Initializer& i : marks_.new_initializers)
      if (i.name == name) return i.tensor;
    return *index_.initializers.at(name);
  }

  std::optional<std::vector<float>> scale_of(const std::string& tensor) const {
    if (auto it = values_.find(tensor); it != values_.end()) return it->second.params.scale;
    for (const Node& n : model_.graph.nodes) {
      bool source = n.op_type == "DequantizeLinear" && !n.outputs.empty() && n.outputs[0] == tensor;
      if (!source) continue;
      auto it = index_.initializers.find(n.inputs[1]);
      if (it != index_.initializers.end() && it->second->is_float()) return to_floats(*it->second);
    }
    return {};
  }

  void write_biases() {
    for (const BiasMark& bias : marks_.biases) {
      auto input_scale = scale_of(bias.input), weight_scale = scale_of(bias.weight);
      std::vector<float> values = bias_values(bias);
      bool usable = input_scale && weight_scale && input_scale->size() == 1 &&
                    (weight_scale->size() == 1 || weight_scale->size() == values.size());
      if (values_.contains(bias.bias)) continue;  // an activation elsewhere: it has its 8-bit form already
      if (!options_.quantize_bias || !usable) {
        if (options_.quantize_bias) marks_.deviate("D12", marks_.nodes[bias.node].name);
        if (marks_.beta.contains(bias.bias)) keep_scaled(bias, values);
        continue;
      }
      QuantizedBias q = quantize_bias(values, (*input_scale)[0], *weight_scale);
      const Tensor& original = bias_tensor(bias.bias);
      std::vector<int64_t> dims =
          bias.broadcast ? std::vector<int64_t>{static_cast<int64_t>(values.size())} : original.dims();
      std::string code = bias.bias + "_quantized";
      int64_t scales = static_cast<int64_t>(q.scale.size());
      added_.push_back({code, Tensor::from(DataType::kInt32, dims, std::move(q.values))});
      added_.push_back({code + "_scale", scale_tensor(q.scale, {scales}, original.type())});
      std::vector<int64_t> zero_dims = scales > 1 ? std::vector<int64_t>{scales} : std::vector<int64_t>{};
      added_.push_back({code + "_zero_point", Tensor::from(DataType::kInt32, zero_dims,
                                                           std::vector<int32_t>(static_cast<size_t>(scales), 0))});
      Node node{bias.bias + "_DequantizeLinear",
                "DequantizeLinear",
                "",
                {code, code + "_scale", code + "_zero_point"},
                {bias.bias},
                {},
                {}};
      if (scales > 1) node.set_attribute({"axis", int64_t{0}});
      new_nodes_.push_back(std::move(node));
      dropped_.insert(bias.bias);
      values_[bias.bias] = {};
    }
  }

  void keep_scaled(const BiasMark& bias, const std::vector<float>& values) {
    const Tensor& original = bias_tensor(bias.bias);
    std::vector<int64_t> dims = static_cast<int64_t>(values.size()) == original.element_count()
                                    ? original.dims()
                                    : std::vector<int64_t>{static_cast<int64_t>(values.size())};
    added_.push_back({bias.bias, scale_tensor(values, dims, original.type())});
    dropped_.insert(bias.bias);
  }

  // --- graph

  Quantized add_params(const std::string& name, const QuantParams& params, DataType float_type) {
    std::vector<int64_t> dims;
    if (params.axis) dims.push_back(static_cast<int64_t>(params.scale.size()));
    Quantized q{name + "_scale", name + "_zero_point", params};
    added_.push_back({q.scale, scale_tensor(params.scale, dims, float_type)});
    added_.push_back({q.zero_point, zero_point_tensor(params, dims)});
    return q;
  }

  void add_linear(const char* op_type, const std::string& input, const std::string& output, const std::string& name,
                  const Quantized& q) {
    Node node{name, op_type, "", {input, q.scale, q.zero_point}, {output}, {}, {}};
    if (q.params.axis) node.set_attribute({"axis", *q.params.axis});
    new_nodes_.push_back(std::move(node));
  }

  void replace_inputs(const std::string& from, const std::string& to) {
    auto it = readers_.find(from);
    if (it == readers_.end()) return;
    std::vector<size_t> nodes = std::move(it->second);
    readers_.erase(it);
    for (size_t i : nodes)
      for (auto& name : marks_.nodes[i].inputs)
        if (name == from) name = to;
    readers_[to] = std::move(nodes);
  }

  void replace_outputs(const std::string& from, const std::string& to) {
    auto it = producers_.find(from);
    if (it == producers_.end()) return;
    for (size_t i : it->second)
      for (auto& name : marks_.nodes[i].outputs)
        if (name == from) name = to;
  }

  Model assemble() {
    Model result = model_;
    Graph& graph = result.graph;
    graph.nodes.clear();
    for (size_t i = 0; i < marks_.nodes.size(); ++i)
      if (!marks_.removed[i]) graph.nodes.push_back(std::move(marks_.nodes[i]));
    for (Node& n : new_nodes_) graph.nodes.push_back(std::move(n));
    std::erase_if(graph.initializers, [&](const Initializer& i) { return dropped_.contains(i.name); });
    for (const Initializer& i : marks_.new_initializers)
      if (!dropped_.contains(i.name)) graph.initializers.push_back(i);
    for (Initializer& i : added_) graph.initializers.push_back(std::move(i));
    std::erase_if(graph.inputs, [&](const ValueInfo& v) { return dropped_.contains(v.name); });
    if (!options_.add_qdq_pair_to_weight) drop_unused_initializers(graph);
    sort_nodes(graph);
    result.producer_name = "seqto";
    result.producer_version = SEQTO_VERSION;
    return result;
  }

  const Model& model_;
  const GraphIndex& index_;
  Marks& marks_;
  const RangeView& ranges_;
  const QuantizeOptions& options_;
  WeightCache& cache_;
  std::unordered_map<std::string, std::vector<size_t>> readers_, producers_;
  std::unordered_map<std::string, QuantParams> weights_;
  std::unordered_map<std::string, Quantized> values_;
  std::unordered_set<std::string> dropped_;
  std::vector<Node> new_nodes_;
  std::vector<Initializer> added_;
};

}  // namespace

Model write_qdq(const Model& model, const GraphIndex& index, Marks& marks, const RangeView& ranges,
                const QuantizeOptions& options, WeightCache& cache) {
  return Writer(model, index, marks, ranges, options, cache).run();
}

}  // namespace seqto::internal
