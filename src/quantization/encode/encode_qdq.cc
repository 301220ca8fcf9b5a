// The static part of a candidate in QDQ form: marks and ranges to scales, zero points and codes.
#include <fmt/format.h>

#include <algorithm>

#include "model/op_traits.h"
#include "quantization/arithmetic/stored_weights.h"
#include "quantization/encode/constant_params.h"
#include "quantization/encode/encode_qdq.h"
#include "quantization/encode/float_results.h"
#include "quantization/encode/type_deviations.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

class Encoder {
 public:
  Encoder(const StaticNodes& nodes, Marks marks, const ActivationParams& activations, const QuantizeOptions& options,
          WeightCache& cache)
      : view_(nodes.view),
        selected_(nodes.selected),
        marks_(std::move(marks)),
        activations_(activations),
        options_(options),
        cache_(cache) {
    if (options.float_between_products && !options.compat_onnxruntime)
      float_results_ = float_results(nodes.model, nodes.view, options.exclude_output_op_types);
  }

  Encoding run() {
    compute_weight_params();
    if (options_.adjust_weight_scale_for_bias) adjust_weights();
    encode_own();
    encode_shared();
    encode_biases();
    result_.graph = EncodedGraph{std::move(marks_.nodes), std::move(marks_.removed), std::move(marks_.new_initializers),
                                 std::move(marks_.receivers)};
    static_cast<Deviations&>(result_) = std::move(marks_);
    return std::move(result_);
  }

 private:
  void deviate(const QuantParams& params) {
    for (const std::string& id : params.deviations) marks_.deviate(id);
  }

  void compute_weight_params() {
    marks_.tensors.for_each([&](const std::string& name, const Mark& mark) {
      const auto found = view_.initializers.find(name);
      if (found == view_.initializers.end()) return;
      QuantParams& params = weights_[name];
      params = constant_params(name, mark, *found->second, options_, cache_);
      deviate(params);
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

  void encode_own() {
    std::vector<std::string> own;
    marks_.tensors.for_each([&](const std::string& name, const Mark& mark) {
      if (mark.provider.empty()) own.push_back(name);
    });
    for (const std::string& name : own) {
      if (view_.is_initializer(name)) encode_weight(name);
      else if (!view_.dequantized.contains(name)) encode_activation(name);
    }
  }

  void encode_weight(const std::string& name) {
    const QuantParams& params = weights_.at(name);
    const Tensor& weight = *view_.initializers.at(name);
    EncodedTensor tensor{.name = name, .params = params, .owner = {name}, .float_type = weight.type()};
    if (options_.add_qdq_pair_to_weight) tensor.inside = brought_inside(weight, params);
    else tensor.codes = cache_.quantized(name, weight, params);
    add(std::move(tensor));
  }

  // A QuantizeLinear knows no reduced range: values that it would give codes beyond are brought into it.
  static std::optional<Tensor> brought_inside(const Tensor& weight, const QuantParams& params) {
    QuantParams whole = params;
    whole.reduced = false;
    if (!params.reduced || code_limits(quantize(weight, whole)).highest <= code_limits(params).highest) return {};
    return in_type(weight.type(), weight.dims(), dequantize(quantize(weight, params), params));
  }

  void encode_activation(const std::string& name) {
    auto params = activations_.original(name);
    if (!params)
      throw Error(
          Code::kInvalidInput,
          fmt::format("[quantize] no range for tensor '{}' found; every input and output of a quantized layer needs "
                      "one; calibrate this model again",
                      name));
    encode_tensor(name, std::move(*params), {name});
  }

  void encode_tensor(const std::string& name, QuantParams params, ParamsOwner owner) {
    EncodedTensor tensor{.name = name,
                         .params = std::move(params),
                         .owner = std::move(owner),
                         .float_type = activations_.float_type(name)};
    tensor.spares_float_readers = spares_float_readers(name);
    tensor.converted = activations_.converted(name);
    deviate(tensor.params);
    if (tensor.converted) {
      deviate(*tensor.converted);
      tensor.converted_readers = converted_readers(name);
    }
    add(std::move(tensor));
  }

  // Where the runtime has it in float before it makes codes of it.
  bool spares_float_readers(const std::string& name) const {
    if (!float_results_.contains(name) || !marks_.receivers.contains(name)) return false;
    const Node* producer = view_.edges.producer(name);
    return producer && (!selected_[view_.edges.place(*producer)] ||
                        std::ranges::count(options_.exclude_output_op_types, producer->op_type) > 0);
  }

  std::unordered_set<LayerId> converted_readers(const std::string& name) const {
    const auto it = marks_.receivers.find(name);
    if (options_.dedicated_qdq_pair && it != marks_.receivers.end() && it->second.size() > 1)
      throw Error(Code::kInvalidInput,
                  fmt::format("[quantize] tensor '{}' is converted between types and dedicated pairs were asked for; "
                              "onnxruntime has no form for both; leave one of them out",
                              name));
    const auto& asked = overrides_of(options_, name)->front().convert->recv_nodes;
    if (asked) return {asked->begin(), asked->end()};
    std::unordered_set<LayerId> all;
    if (it != marks_.receivers.end())
      for (size_t i : it->second) all.insert(marks_.nodes[i].name);
    return all;
  }

  void encode_shared() {
    std::vector<std::pair<std::string, Mark>> left;
    marks_.tensors.for_each([&](const std::string& name, const Mark& mark) {
      if (!mark.provider.empty()) left.emplace_back(name, mark);
    });
    while (!left.empty()) {
      std::vector<std::pair<std::string, Mark>> waiting;
      for (auto& [name, mark] : left) {
        const EncodedTensor* provider = find(mark.provider);
        if (!provider) {
          waiting.emplace_back(name, mark);
        } else if (provider->params.axis) {
          // A vector of scales makes no sense on another tensor.
          marks_.deviate("D18");
          if (activations_.original(name)) encode_activation(name);
        } else if (view_.is_initializer(provider->name) && activations_.is_joined(name)) {
          encode_activation(name);  // rows of a table beside an activation's values: the table has no range to share
        } else {
          const bool second = provider->converted && provider->converted_readers.contains(mark.provider_node);
          encode_tensor(name, second ? *provider->converted : provider->params,
                        second ? ParamsOwner{provider->name, true} : provider->owner);
        }
      }
      if (waiting.size() == left.size()) {
        // The provider is never quantized (its type is unknown, or it is dequantized already): stand alone.
        marks_.deviate("D5");
        auto first = waiting.front().first;
        waiting.erase(waiting.begin());
        if (activations_.original(first) && !view_.dequantized.contains(first)) encode_activation(first);
      }
      left = std::move(waiting);
    }
  }

  const EncodedTensor* find(const std::string& name) const {
    const auto it = places_.find(name);
    return it == places_.end() ? nullptr : &result_.tensors[it->second];
  }

  void add(EncodedTensor tensor) {
    places_[tensor.name] = result_.tensors.size();
    result_.tensors.push_back(std::move(tensor));
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
    return *view_.initializers.at(name);
  }

  const LayerId& node_name(const BiasMark& bias) const { return marks_.nodes[bias.node].name; }

  // Parameters of a tensor as this node reads it, also of those that the model brought along.
  std::optional<QuantParams> params_of(const std::string& tensor, const LayerId& node) const {
    if (const EncodedTensor* found = find(tensor)) return found->read_by(node);
    const Node* source = view_.edges.producer(tensor);
    if (!source || !is_dequantize(*source)) return {};
    auto it = view_.initializers.find(source->inputs[1]);
    if (it == view_.initializers.end() || !it->second->is_float()) return {};
    return QuantParams{DataType::kInt8, to_floats(*it->second), {}, {}};
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

  void encode_biases() {
    for (const BiasMark& bias : marks_.biases) {
      auto input = params_of(bias.input, node_name(bias)), weight = params_of(bias.weight, node_name(bias));
      std::vector<float> values = bias_values(bias);
      auto tensor = view_.initializers.find(bias.weight);
      bool usable =
          input && weight && input->scale.size() == 1 &&
          fits(*weight, tensor == view_.initializers.end() ? nullptr : tensor->second, bias_dims(bias, values));
      if (find(bias.bias) || done_.contains(bias.bias)) continue;  // it has its codes already
      const DataType float_type = bias_tensor(bias.bias).type();
      if (!options_.quantize_bias || !usable) {
        if (options_.quantize_bias) marks_.deviate("D12", node_name(bias));
        if (marks_.beta.contains(bias.bias)) keep_scaled(bias, values);
        continue;
      }
      QuantizedBias q = quantize_bias(values, input->scale[0], weight->scale, float_type, bias.multiplier);
      const bool rounds = float_type == DataType::kFloat16 && !options_.compat_onnxruntime;
      if (rounds && std::ranges::count(q.scale, 0.0F) > 0) {  // codes of steps of 0 would say nothing
        marks_.deviate("D66", node_name(bias));
        if (marks_.beta.contains(bias.bias)) keep_scaled(bias, values);
        continue;
      }
      result_.biases.push_back({bias.bias, node_name(bias), std::move(q.scale),
                                Tensor::from(DataType::kInt32, bias_dims(bias, values), std::move(q.values)),
                                float_type});
      done_.insert(bias.bias);
    }
  }

  void keep_scaled(const BiasMark& bias, const std::vector<float>& values) {
    const Tensor& original = bias_tensor(bias.bias);
    std::vector<int64_t> dims = static_cast<int64_t>(values.size()) == original.element_count()
                                    ? original.dims()
                                    : std::vector<int64_t>{static_cast<int64_t>(values.size())};
    result_.biases.push_back(
        {bias.bias, node_name(bias), {}, scale_tensor(values, dims, original.type()), original.type(), true});
  }

  const GraphView& view_;
  const std::vector<bool>& selected_;
  Marks marks_;
  const ActivationParams& activations_;
  const QuantizeOptions& options_;
  WeightCache& cache_;
  std::unordered_map<std::string, QuantParams> weights_;
  std::unordered_map<std::string, size_t> places_;  // of tensors in the result
  std::unordered_set<std::string> done_;            // biases
  std::unordered_set<std::string> float_results_;
  Encoding result_;
};

}  // namespace

Encoding encode_qdq(const StaticNodes& nodes, const QuantizeOptions& options, WeightCache& cache) {
  const auto& [model, view, selected, ranges] = nodes;
  const ActivationParams params(ranges, view, options);
  auto bounds = [&params](const std::string& tensor) -> std::optional<RealBounds> {
    auto p = params.original(tensor);
    if (!p) return {};
    RealBounds bounds = real_bounds(*p);
    bounds.converted = params.converted(tensor).has_value();
    return bounds;
  };
  Marks marks = mark_tensors(model, view, selected, options, bounds);
  if (has_float32_scale(nodes, options, params, marks)) marks.deviate("D17");
  Encoding encoding = Encoder(nodes, std::move(marks), params, options, cache).run();
  if (view.opset < 21 && !options.use_qdq_contrib_ops && hides_4_bits(options)) encoding.deviate("D24");
  if (has_unranged_softmax(model, ranges, [&](size_t i) { return selected[i]; })) encoding.deviate("D34");
  for (const LayerId& layer : ranges.kept()) encoding.deviate("D61", layer);
  return encoding;
}

}  // namespace seqto::internal
