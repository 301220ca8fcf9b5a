#include "seqto/analyze.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "model/sort_nodes.h"
#include "quantization/arithmetic.h"
#include "quantization/marks.h"
#include "seqto/error.h"

namespace seqto {
namespace {

using internal::GraphIndex;

// A tensor of the float model with its two selves in the quantized one.
struct Pair {
  std::string tensor, before, after;
};

std::string without_suffix(const std::string& name, std::string_view suffix) {
  return name.ends_with(suffix) ? name.substr(0, name.size() - suffix.size()) : name;
}

std::vector<Pair> find_pairs(const Model& float_model, const Model& quantized) {
  std::unordered_map<std::string, const Node*> quantizers;
  for (const Node& n : quantized.graph.nodes)
    if (n.op_type == "QuantizeLinear") quantizers[n.outputs[0]] = &n;
  GraphIndex floats(float_model), index(quantized);
  std::vector<Pair> pairs;
  std::unordered_set<std::string> seen;
  for (const Node& n : quantized.graph.nodes) {
    if (n.op_type != "DequantizeLinear") continue;
    auto q = quantizers.find(n.inputs[0]);
    if (q == quantizers.end() || index.is_initializer(q->second->inputs[0])) continue;
    std::string before = q->second->inputs[0];
    std::string tensor = without_suffix(before, "_QuantizeLinear_Input");
    if (floats.is_float(tensor) && !floats.is_initializer(tensor) && seen.insert(tensor).second)
      pairs.push_back({tensor, before, n.outputs[0]});
  }
  return pairs;
}

ValueInfo scalar_info(const std::string& name) { return {name, DataType::kFloat, std::vector<Dimension>{}, ""}; }

// The quantized model with the float tensors as further inputs and, for every pair, four sums of squares as outputs:
// what leaves the runtime is four numbers a tensor.
Model with_error_sums(const Model& quantized, const std::vector<Pair>& pairs, const Model& float_model) {
  Model result = quantized;
  Graph& graph = result.graph;
  GraphIndex floats(float_model);
  graph.outputs.clear();
  for (const Pair& p : pairs) {
    std::string reference = p.tensor + "_seqto_float";
    // A graph input is in the quantized model too; a second input of the same values would only be one more copy.
    if (floats.inputs.contains(p.tensor)) reference = p.tensor;
    else graph.inputs.push_back({reference, floats.types.at(p.tensor), {}, ""});
    auto sum = [&](const std::string& suffix, const std::string& a, const std::string& b) {
      std::string input = a, output = p.tensor + suffix;
      if (!b.empty()) {
        input = output + "_difference";
        graph.nodes.push_back({input, "Sub", "", {a, b}, {input}, {}, {}});
      }
      Node reduce{output, "ReduceSumSquare", "", {input}, {output}, {}, {}};
      reduce.set_attribute({"keepdims", int64_t{0}});
      graph.nodes.push_back(std::move(reduce));
      graph.outputs.push_back(scalar_info(output));
    };
    sum("_seqto_before", p.before, "");
    sum("_seqto_qdq", p.before, p.after);
    sum("_seqto_reference", reference, "");
    sum("_seqto_xmodel", reference, p.after);
  }
  internal::sort_nodes(graph);
  return result;
}

Model with_outputs(const Model& model, const std::vector<std::string>& tensors) {
  Model result = model;
  GraphIndex index(model);
  result.graph.outputs.clear();
  for (const auto& t : tensors) result.graph.outputs.push_back({t, index.types.at(t), {}, ""});
  return result;
}

// onnxruntime's figure: norms below the double's epsilon count as it.
double decibels(double signal_square, double noise_square) {
  constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
  return 20.0 * std::log10(std::max(std::sqrt(signal_square), kEpsilon) / std::max(std::sqrt(noise_square), kEpsilon));
}

std::vector<ActivationError> activation_errors(const Model& float_model, const Model& quantized, const Dataset& data,
                                               std::span<const int64_t> samples, Runner& runner, const Env& env) {
  std::vector<Pair> pairs = find_pairs(float_model, quantized);
  if (pairs.empty()) return {};
  GraphIndex floats(float_model);
  std::vector<std::string> wanted;
  for (const Pair& p : pairs)
    if (!floats.inputs.contains(p.tensor)) wanted.push_back(p.tensor);
  auto reference = runner.load(with_outputs(float_model, wanted), {SessionOptions::Optimization::kNone});
  auto measured = runner.load(with_error_sums(quantized, pairs, float_model), {SessionOptions::Optimization::kNone});
  std::vector<double> sums(4 * pairs.size());
  int64_t done = 0;
  for (int64_t index : samples) {
    env.stop_if_cancelled("analyze");
    std::vector<Tensor> inputs = data.read(index).inputs;
    for (Tensor& t : reference->run(inputs)) inputs.push_back(std::move(t));
    auto outputs = measured->run(inputs);
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += element(outputs[i], 0);
    env.progress({"analyze", ++done, static_cast<int64_t>(samples.size()), ""});
  }
  std::vector<ActivationError> errors;
  for (size_t i = 0; i < pairs.size(); ++i)
    errors.push_back(
        {pairs[i].tensor, decibels(sums[4 * i], sums[4 * i + 1]), decibels(sums[4 * i + 2], sums[4 * i + 3]), 0});
  return errors;
}

std::vector<WeightError> weight_errors(const Model& float_model, const Model& quantized) {
  GraphIndex floats(float_model), index(quantized);
  std::vector<WeightError> errors;
  for (const Node& n : quantized.graph.nodes) {
    if (n.op_type != "DequantizeLinear") continue;
    auto code = index.initializers.find(n.inputs[0]);
    std::string name = without_suffix(n.inputs[0], "_quantized");
    auto original = floats.initializers.find(name);
    if (code == index.initializers.end() || name == n.inputs[0] || original == floats.initializers.end()) continue;
    internal::QuantParams params;
    params.type = code->second->type();
    const Tensor& scale = *index.initializers.at(n.inputs[1]);
    params.scale = internal::to_floats(scale);
    for (int64_t i = 0; i < scale.element_count(); ++i)
      params.zero_point.push_back(
          n.inputs.size() > 2
              ? static_cast<int32_t>(element(*index.initializers.at(n.inputs[2]),
                                             index.initializers.at(n.inputs[2])->element_count() == 1 ? 0 : i))
              : 0);
    if (params.scale.size() > 1) params.axis = n.int_attribute("axis", 1);
    std::vector<float> was = internal::to_floats(*original->second), is = internal::dequantize(*code->second, params);
    if (was.size() != is.size()) continue;
    double signal = 0, noise = 0;
    for (size_t i = 0; i < was.size(); ++i) {
      double difference = static_cast<double>(was[i]) - is[i];
      signal += static_cast<double>(was[i]) * was[i];
      noise += difference * difference;
    }
    errors.push_back({name, decibels(signal, noise)});
  }
  return errors;
}

void score(std::vector<ActivationError>& errors) {
  if (errors.empty()) return;
  auto normalized = [&](double ActivationError::* field) {
    auto [low, high] = std::minmax_element(errors.begin(), errors.end(),
                                           [&](const auto& a, const auto& b) { return a.*field < b.*field; });
    double lowest = (*low).*field, span = std::max((*high).*field - lowest, 1e-12);
    return [=](const ActivationError& e) { return (e.*field - lowest) / span; };
  };
  auto xmodel = normalized(&ActivationError::xmodel_err), qdq = normalized(&ActivationError::qdq_err);
  for (ActivationError& e : errors) e.score = 0.5 * xmodel(e) + 0.5 * qdq(e);
}

}  // namespace

Sensitivity analyze(const Model& float_model, const Model& quantized, const Dataset& data,
                    std::span<const int64_t> samples, Runner& runner, const Env& env) {
  Sensitivity result;
  result.activations = activation_errors(float_model, quantized, data, samples, runner, env);
  score(result.activations);
  std::stable_sort(result.activations.begin(), result.activations.end(),
                   [](const auto& a, const auto& b) { return a.score > b.score; });
  result.weights = weight_errors(float_model, quantized);
  std::stable_sort(result.weights.begin(), result.weights.end(),
                   [](const auto& a, const auto& b) { return a.sqnr > b.sqnr; });
  return result;
}

std::vector<std::string> exclusion_order(const Sensitivity& sensitivity, const Model& float_model) {
  std::unordered_map<std::string, std::vector<std::string>> readers;
  for (const Node& n : float_model.graph.nodes)
    for (const auto& name : n.inputs)
      if (!name.empty()) readers[name].push_back(n.name);
  std::vector<std::string> order;
  std::unordered_set<std::string> seen;
  auto add = [&](const std::string& tensor) {
    if (seen.insert(tensor).second) order.push_back(tensor);
    for (const auto& node : readers[tensor])
      if (seen.insert(node).second) order.push_back(node);
  };
  for (const auto& e : sensitivity.activations) add(e.tensor);
  for (const auto& e : sensitivity.weights) add(e.tensor);
  return order;
}

}  // namespace seqto
