#include "quantization/lower/qdq_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/float16.h"
#include "model/sort_nodes.h"
#include "quantization/arithmetic/stored_weights.h"
#include "quantization/encode/constant_params.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

class Writer {
 public:
  Writer(const Model& model, const GraphView& index, Marks& marks, const ActivationParams& activations,
         const QuantizeOptions& options, WeightCache& cache)
      : model_(model), index_(index), marks_(marks), activations_(activations), options_(options), cache_(cache) {
    if (in_contrib_domain(options, index.opset)) domain_ = "com.microsoft";
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
  struct Linear {
    std::string scale, zero_point;  // initializers
    QuantParams params;
  };
  struct Quantized {
    Linear original;
    std::optional<Linear> converted;  // mixed precision: what some readers get
    std::unordered_set<std::string> converted_readers;

    const Linear& read_by(const LayerId& node) const {
      return converted && converted_readers.contains(node) ? *converted : original;
    }
  };

  // --- parameters

  void compute_weight_params() {
    marks_.tensors.for_each([&](const std::string& name, const Mark& mark) {
      if (auto it = index_.initializers.find(name); it != index_.initializers.end())
        if ((weights_[name] = constant_params(name, mark, *it->second, options_, cache_)).cut) marks_.deviate("D57");
    });
  }

  void adjust_weights() {
    for (const BiasMark& bias : marks_.biases) {
      auto input = activations_.read_by(bias.input, node_name(bias));
      auto weight = weights_.find(bias.weight);
      if (!input || !marks_.tensors.contains(bias.input) || weight == weights_.end()) continue;
      QuantParams& params = weight->second;
      bool signed_type = params.type == DataType::kInt8 || params.type == DataType::kInt16;
      bool all_zero = std::all_of(params.zero_point.begin(), params.zero_point.end(), [](int32_t z) { return z == 0; });
      if (!signed_type || !all_zero) continue;
      const std::vector<float> values = bias_values(bias);
      if (params.axis && params.block_size == 0 && params.scale.size() > values.size()) {
        marks_.deviate("D12", node_name(bias));  // scales along another axis; onnxruntime stops here
        continue;
      }
      adjust_weight_scale_for_bias(values, input->scale[0], params, bias_tensor(bias.bias).type());
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
    Linear q = add_params(name, params, scale_dims(params, weight.dims()), weight.type());
    std::string output = name + "_DequantizeLinear_Output";
    replace_inputs(name, output);
    std::string code = name + (options_.add_qdq_pair_to_weight ? "_QuantizeLinear_Output" : "_quantized");
    if (options_.add_qdq_pair_to_weight)
      add_linear("QuantizeLinear", paired_weight(name, weight, params), code, name + "_QuantizeLinear", q);
    else added_.push_back({code, cache_.quantized(name, weight, params)});
    add_linear("DequantizeLinear", code, output, name + "_DequantizeLinear", q);
    values_[name] = {std::move(q), {}, {}};
  }

  // A QuantizeLinear knows no reduced range: values that it would give codes beyond are brought into it.
  std::string paired_weight(const std::string& name, const Tensor& weight, const QuantParams& params) {
    QuantParams whole = params;
    whole.reduced = false;
    if (!params.reduced || code_limits(quantize(weight, whole)).highest <= code_limits(params).highest) return name;
    const std::string inside = name + "_in_range";
    added_.push_back({inside, in_type(weight.type(), weight.dims(), dequantize(quantize(weight, params), params))});
    return inside;
  }

  void write_activation(const std::string& name) {
    auto params = activations_.original(name);
    if (!params)
      throw Error(
          Code::kInvalidInput,
          fmt::format("[quantize] no range for tensor '{}' found; every input and output of a quantized layer needs "
                      "one; calibrate this model again",
                      name));
    write_tensor(name, add_params(name, *params, {}, activations_.float_type(name)));
  }

  // Q and DQ of an activation; where it is converted, the second pair behind the first.
  void write_tensor(const std::string& name, Linear original) {
    Quantized q{std::move(original), {}, {}};
    if (auto params = activations_.converted(name)) {
      q.converted = add_params(name, *params, {}, activations_.float_type(name), "_convert");
      write_converted(name, q);
    } else if (options_.dedicated_qdq_pair && receiver_count(name) > 1) {
      write_dedicated_pairs(name, q.original);
    } else {
      write_pair(name, q.original);
    }
    values_[name] = std::move(q);
  }

  size_t receiver_count(const std::string& name) const {
    auto it = marks_.receivers.find(name);
    return it == marks_.receivers.end() ? 0 : it->second.size();
  }

  void write_pair(const std::string& name, const Linear& q) {
    std::string input = name, output = name + "_DequantizeLinear_Output";
    if (index_.outputs.contains(name)) {
      input = name + "_QuantizeLinear_Input";
      output = name;
      replace_outputs(name, input);
    } else {
      replace_inputs(name, output);
    }
    add_pair(name, input, output, "", q);
  }

  // A pair for every edge to a quantized node; a node that reads the tensor twice leaves the second one unread.
  void write_dedicated_pairs(const std::string& name, const Linear& q) {
    size_t k = 0;
    for (size_t i : marks_.receivers.at(name)) {
      std::string suffix = fmt::format("_{}", ++k);
      std::string output = name + "_DequantizeLinear_Output" + suffix;
      add_pair(name, name, output, suffix, q);
      replace_inputs_of(i, name, output);
    }
  }

  void add_pair(const std::string& name, const std::string& input, const std::string& output, const std::string& suffix,
                const Linear& q) {
    std::string code = name + "_QuantizeLinear_Output" + suffix;
    add_linear("QuantizeLinear", input, code, name + "_QuantizeLinear" + suffix, q);
    add_linear("DequantizeLinear", code, output, name + "_DequantizeLinear" + suffix, q);
  }

  // producer -> Q -> DQ -> readers of the original type
  //               -> DQ' -> Q2 -> DQ2 -> readers of the converted type; DQ' is DQ where nobody reads the original.
  void write_converted(const std::string& name, Quantized& q) {
    std::unordered_set<std::string> receivers, originals;
    if (auto it = marks_.receivers.find(name); it != marks_.receivers.end())
      for (size_t i : it->second) receivers.insert(marks_.nodes[i].name);
    if (options_.dedicated_qdq_pair && receiver_count(name) > 1)
      throw Error(Code::kInvalidInput,
                  fmt::format("[quantize] tensor '{}' is converted between types and dedicated pairs were asked for; "
                              "onnxruntime has no form for both; leave one of them out",
                              name));
    const auto& asked = overrides_of(options_, name)->front().convert->recv_nodes;
    if (asked) {
      q.converted_readers.insert(asked->begin(), asked->end());
      for (const auto& r : receivers)
        if (!asked->contains(r)) originals.insert(r);
    } else {
      q.converted_readers = receivers;
    }
    bool all = q.converted_readers.size() == receivers.size(), is_output = index_.outputs.contains(name);
    std::string converted = name + "_convert", input = name, code = name + "_QuantizeLinear_Output";
    if (is_output) {
      input = name + "_QuantizeLinear_Input";
      replace_outputs(name, input);
    }
    std::string first = is_output && !all ? name : name + "_DequantizeLinear_Output";
    add_linear("QuantizeLinear", input, code, name + "_QuantizeLinear", q.original);
    if (first != name) replace_inputs_by_name(originals, name, first);
    add_linear("DequantizeLinear", code, first, name + "_DequantizeLinear", q.original);
    std::string between = first;
    if (!all) {
      between = converted + "_QuantizeLinear_Input";
      add_linear("DequantizeLinear", code, between, converted + "_clone_DequantizeLinear", q.original);
    }
    std::string second_code = converted + "_QuantizeLinear_Output";
    std::string second = is_output && all ? name : converted + "_DequantizeLinear_Output";
    add_linear("QuantizeLinear", between, second_code, converted + "_QuantizeLinear", *q.converted);
    if (second != name) replace_inputs_by_name(q.converted_readers, name, second);
    add_linear("DequantizeLinear", second_code, second, converted + "_DequantizeLinear", *q.converted);
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
        } else if (provider->second.original.params.axis) {
          // A vector of scales makes no sense on another tensor.
          marks_.deviate("D18");
          if (activations_.original(name)) write_activation(name);
        } else {
          write_tensor(name, Linear(provider->second.read_by(mark.provider_node)));
        }
      }
      if (waiting.size() == left.size()) {
        // The provider is never quantized (its type is unknown, or it is dequantized already): stand alone.
        marks_.deviate("D5");
        auto first = waiting.front().first;
        waiting.erase(waiting.begin());
        if (activations_.original(first) && !index_.dequantized.contains(first)) write_activation(first);
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
    // Not where the scales ended up along another axis, or are one for all.
    if (bias.columns > 0 && weight != weights_.end() && values.size() == 1 && weight->second.block_size == 0 &&
        std::ssize(weight->second.scale) == bias.columns)
      values.assign(weight->second.scale.size(), values[0]);
    return values;
  }

  const Tensor& bias_tensor(const std::string& name) const {
    for (const Initializer& i : marks_.new_initializers)
      if (i.name == name) return i.tensor;
    return *index_.initializers.at(name);
  }

  const LayerId& node_name(const BiasMark& bias) const { return marks_.nodes[bias.node].name; }

  // Parameters of a tensor as this node reads it, also of those that the model brought along.
  std::optional<QuantParams> params_of(const std::string& tensor, const LayerId& node) const {
    if (auto it = values_.find(tensor); it != values_.end()) return it->second.read_by(node).params;
    for (const Node& n : model_.graph.nodes) {
      bool source = n.op_type == "DequantizeLinear" && !n.outputs.empty() && n.outputs[0] == tensor;
      if (!source) continue;
      auto it = index_.initializers.find(n.inputs[1]);
      if (it != index_.initializers.end() && it->second->is_float())
        return QuantParams{DataType::kInt8, to_floats(*it->second), {}, {}};
    }
    return {};
  }

  // Whether int32 values with the product of the scales say the same as the bias.
  bool fits(const QuantParams& weight, const Tensor* tensor, const std::vector<int64_t>& bias_dims) const {
    if (weight.block_size > 0 && (!tensor || scale_dims(weight, tensor->dims())[0] != 1)) return false;
    return weight.scale.size() == 1 || bias_dims == std::vector<int64_t>{std::ssize(weight.scale)};
  }

  // What `values` are written as: those of a Gemm's C that is a row are a row of rank 1.
  std::vector<int64_t> bias_dims(const BiasMark& bias, const std::vector<float>& values) const {
    return bias.columns > 0 ? std::vector<int64_t>{std::ssize(values)} : bias_tensor(bias.bias).dims();
  }

  void write_biases() {
    for (const BiasMark& bias : marks_.biases) {
      auto input = params_of(bias.input, node_name(bias)), weight = params_of(bias.weight, node_name(bias));
      std::vector<float> values = bias_values(bias);
      auto tensor = index_.initializers.find(bias.weight);
      bool usable =
          input && weight && input->scale.size() == 1 &&
          fits(*weight, tensor == index_.initializers.end() ? nullptr : tensor->second, bias_dims(bias, values));
      if (values_.contains(bias.bias)) continue;  // an activation elsewhere: it has its 8-bit form already
      if (!options_.quantize_bias || !usable) {
        if (options_.quantize_bias) marks_.deviate("D12", marks_.nodes[bias.node].name);
        if (marks_.beta.contains(bias.bias)) keep_scaled(bias, values);
        continue;
      }
      std::vector<float> weight_scale = weight->scale;
      DataType float_type = bias_tensor(bias.bias).type();
      QuantizedBias q = quantize_bias(values, input->scale[0], weight_scale, float_type, bias.multiplier);
      const Tensor& original = bias_tensor(bias.bias);
      std::vector<int64_t> dims = bias_dims(bias, values);
      std::string code = bias.bias + "_quantized";
      int64_t scales = static_cast<int64_t>(q.scale.size());
      added_.push_back({code, Tensor::from(DataType::kInt32, dims, std::move(q.values))});
      added_.push_back({code + "_scale", scale_tensor(q.scale, {scales}, original.type())});
      std::vector<int64_t> zero_dims = scales > 1 ? std::vector<int64_t>{scales} : std::vector<int64_t>{};
      added_.push_back({code + "_zero_point", Tensor::from(DataType::kInt32, zero_dims,
                                                           std::vector<int32_t>(static_cast<size_t>(scales), 0))});
      Node node{bias.bias + "_DequantizeLinear",
                "DequantizeLinear",
                domain_,
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

  Linear add_params(const std::string& name, const QuantParams& params, const std::vector<int64_t>& dims,
                    DataType float_type, const std::string& suffix = "") {
    Linear q{name + "_scale" + suffix, name + "_zero_point" + suffix, params};
    added_.push_back({q.scale, scale_tensor(params.scale, dims, float_type)});
    added_.push_back({q.zero_point, zero_point_tensor(params, dims)});
    return q;
  }

  void add_linear(const char* op_type, const std::string& input, const std::string& output, const std::string& name,
                  const Linear& q) {
    Node node{name, op_type, domain_, {input, q.scale, q.zero_point}, {output}, {}, {}};
    if (q.params.axis) node.set_attribute({"axis", *q.params.axis});
    if (q.params.block_size > 0) node.set_attribute({"block_size", q.params.block_size});
    new_nodes_.push_back(std::move(node));
  }

  void replace_inputs_of(size_t i, const std::string& from, const std::string& to) {
    for (auto& name : marks_.nodes[i].inputs)
      if (name == from) {
        name = to;
        readers_[to].push_back(i);
      }
  }

  void replace_inputs_by_name(const std::unordered_set<std::string>& nodes, const std::string& from,
                              const std::string& to) {
    for (size_t i = 0; i < marks_.nodes.size(); ++i)
      if (nodes.contains(marks_.nodes[i].name)) replace_inputs_of(i, from, to);
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
    if (!domain_.empty()) import_contrib_domain(result);
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

  static void import_contrib_domain(Model& model) {
    std::erase_if(model.opsets, [](const Opset& o) { return o.domain == "com.microsoft"; });
    model.opsets.push_back({"com.microsoft", 1});
  }

  const Model& model_;
  const GraphView& index_;
  Marks& marks_;
  const ActivationParams& activations_;
  const QuantizeOptions& options_;
  WeightCache& cache_;
  std::unordered_map<std::string, std::vector<size_t>> readers_, producers_;
  std::unordered_map<std::string, QuantParams> weights_;
  std::unordered_map<std::string, Quantized> values_;
  std::unordered_set<std::string> dropped_;
  std::vector<Node> new_nodes_;
  std::vector<Initializer> added_;
  std::string domain_;  // of Q and DQ
};

}  // namespace

Model write_qdq(const Model& model, const GraphView& index, Marks& marks, const ActivationParams& activations,
                const QuantizeOptions& options, WeightCache& cache) {
  return Writer(model, index, marks, activations, options, cache).run();
}

}  // namespace seqto::internal
