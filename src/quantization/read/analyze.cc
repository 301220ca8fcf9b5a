#include "seqto/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "model/graph_view.h"
#include "model/sort_nodes.h"
#include "quantization/arithmetic/channels.h"
#include "quantization/read/compare_tensors.h"
#include "runner/of_sample.h"
#include "seqto/error.h"

namespace seqto {
namespace {

constexpr std::string_view kAcrossModels = "_seqto_xmodel";  // behind the name of a tensor that both have

constexpr SessionOptions kAsWritten{.optimization = SessionOptions::Optimization::kNone, .threads = 1};

using internal::Comparison;
using internal::GraphView;
using internal::TensorPair;

// The quantized model with the float tensors as further inputs and, for every pair, sums of squares as outputs: what
// leaves the runtime is four numbers a tensor, and two a channel where they are asked for.
class ErrorSums {
 public:
  ErrorSums(const Comparison& comparison, const Model& float_model, bool channels)
      : model_(comparison.quantized), floats_(float_model), types_(infer_shapes(comparison.quantized)) {
    model_.graph.outputs.clear();
    for (const ValueInfo& v : float_model.graph.value_info) infos_[v.name] = &v;
    for (const ValueInfo& v : float_model.graph.outputs) infos_[v.name] = &v;
    for (const ValueInfo& v : float_model.graph.inputs) infos_[v.name] = &v;
    for (const TensorPair& p : comparison.activations) add(p, channels);
    internal::sort_nodes(model_.graph);
  }

  const Model& model() const { return model_; }
  bool has_channels(size_t pair) const { return channels_[pair]; }

 private:
  void add(const TensorPair& p, bool channels) {
    std::string reference = p.tensor + "_seqto_float";
    // A graph input is in the quantized model too; a second input of the same values would only be one more copy.
    if (floats_.inputs.contains(p.tensor)) reference = p.tensor;
    else model_.graph.inputs.push_back({reference, floats_.types.at(p.tensor), {}, ""});
    reference = as_float(reference, floats_.types.at(p.tensor));
    auto type_of = [&](const std::string& name) {
      auto it = types_.types.find(name);
      return it == types_.types.end() ? floats_.types.at(p.tensor) : it->second;
    };
    std::string after = as_float(p.after, type_of(p.after));
    if (!p.before.empty()) {
      std::string before = as_float(p.before, type_of(p.before));
      sum(p.tensor + "_seqto_before", before, "", {});
      sum(p.tensor + "_seqto_qdq", before, after, {});
    }
    sum(p.tensor + "_seqto_reference", reference, "", {});
    sum(fmt::format("{}{}", p.tensor, kAcrossModels), reference, after, {});
    auto info = infos_.find(p.tensor);
    size_t rank = info != infos_.end() && info->second->shape ? info->second->shape->size() : 0;
    channels_.push_back(channels && rank >= 2);
    if (!channels_.back()) return;
    std::vector<int64_t> axes{0};
    for (size_t d = 2; d < rank; ++d) axes.push_back(static_cast<int64_t>(d));
    sum(p.tensor + "_seqto_reference_channels", reference, "", axes);
    sum(fmt::format("{}{}_channels", p.tensor, kAcrossModels), reference, after, axes);
  }

  std::string as_float(const std::string& tensor, DataType type) {
    if (type != DataType::kFloat16) return tensor;
    Node cast{tensor + "_seqto_cast", "Cast", "", {tensor}, {tensor + "_seqto_cast"}, {}, {}};
    cast.set_attribute({"to", static_cast<int64_t>(DataType::kFloat)});
    if (casts_.insert(tensor).second) model_.graph.nodes.push_back(cast);
    return cast.outputs[0];
  }

  // Sum of the squares of a, or of a - b; over all axes, or over these.
  void sum(const std::string& output, const std::string& a, const std::string& b, const std::vector<int64_t>& axes) {
    std::string input = a;
    if (!b.empty()) {
      input = output + "_difference";
      model_.graph.nodes.push_back({input, "Sub", "", {a, b}, {input}, {}, {}});
    }
    Node reduce{output, "ReduceSumSquare", "", {input}, {output}, {}, {}};
    reduce.set_attribute({"keepdims", int64_t{0}});
    if (!axes.empty() && model_.opset() < 18) {
      reduce.set_attribute({"axes", axes});
    } else if (!axes.empty()) {
      reduce.inputs.push_back(output + "_axes");
      model_.graph.initializers.push_back({output + "_axes", int64_tensor({std::ssize(axes)}, axes)});
    }
    model_.graph.nodes.push_back(std::move(reduce));
    std::vector<Dimension> shape(axes.empty() ? 0 : 1);
    model_.graph.outputs.push_back({output, DataType::kFloat, shape, ""});
  }

  Model model_;
  GraphView floats_, types_;
  std::unordered_map<std::string, const ValueInfo*> infos_;
  std::unordered_set<std::string> casts_;
  std::vector<bool> channels_;
};

Model with_outputs(const Model& model, const std::vector<std::string>& tensors) {
  Model result = model;
  GraphView index(model);
  result.graph.outputs.clear();
  for (const auto& t : tensors) result.graph.outputs.push_back({t, index.types.at(t), {}, ""});
  return result;
}

// Of a runtime that could not subtract a tensor of one model from the other's: its name; empty: it says something else.
std::string tensor_of_two_shapes(std::string_view said) {
  constexpr std::string_view kNode = "Name:'";
  const size_t end = said.find(kAcrossModels), begin = said.rfind(kNode, end);
  if (end == said.npos || begin == said.npos) return {};
  return std::string(said.substr(begin + kNode.size(), end - begin - kNode.size()));
}

std::vector<Tensor> sums_of(Session& measured, const std::vector<Tensor>& inputs) {
  try {
    return measured.run(inputs);
  } catch (const Error& error) {
    const std::string tensor = tensor_of_two_shapes(error.what());
    if (error.code() != Code::kInvalidInput || tensor.empty()) throw;
    throw Error(Code::kInvalidInput,
                fmt::format("[analyze] the tensor '{}' is found in one shape in the float model and in another in the "
                            "quantized one; one shape expected, but how long it is depends on values; what the answers "
                            "lose by each group of layers says `seqto analyze --one-in`",
                            tensor));
  }
}

// onnxruntime's figure: norms below the double's epsilon count as it.
double decibels(double signal_square, double noise_square) {
  constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
  return 20.0 * std::log10(std::max(std::sqrt(signal_square), kEpsilon) / std::max(std::sqrt(noise_square), kEpsilon));
}

// Of a weight. What is zero in both has nothing to lose: NaN, where onnxruntime's figure is that of noise alone.
double weight_decibels(double signal_square, double noise_square) {
  if (signal_square == 0 && noise_square == 0) return std::numeric_limits<double>::quiet_NaN();
  return decibels(signal_square, noise_square);
}

std::vector<ActivationError> activation_errors(const Model& float_model, const Comparison& comparison,
                                               const SampleRun& on, bool channels) {
  const auto& [data, samples, runner, env] = on;
  const auto& pairs = comparison.activations;
  if (pairs.empty()) return {};
  GraphView floats(float_model);
  std::vector<std::string> wanted;
  for (const TensorPair& p : pairs)
    if (!floats.inputs.contains(p.tensor)) wanted.push_back(p.tensor);
  ErrorSums sums(comparison, float_model, channels);
  // Of a model whose inputs alone are quantized nothing else is compared.
  auto reference = wanted.empty() ? nullptr : runner.load(with_outputs(float_model, wanted), kAsWritten);
  auto measured = runner.load(sums.model(), kAsWritten);
  std::vector<std::vector<double>> totals(sums.model().graph.outputs.size());
  int64_t done = 0;
  for (int64_t index : samples) {
    env.stop_if_cancelled("analyze");
    Sample sample = data.read(index);
    if (reference)
      for (Tensor& t : run_sample(*reference, sample)) sample.inputs.push_back(std::move(t));
    const std::vector<Tensor> outputs =
        internal::of_sample(sample.name, [&] { return sums_of(*measured, sample.inputs); });
    for (size_t i = 0; i < totals.size(); ++i) {
      totals[i].resize(static_cast<size_t>(outputs[i].element_count()));
      for (size_t c = 0; c < totals[i].size(); ++c) totals[i][c] += element(outputs[i], static_cast<int64_t>(c));
    }
    env.progress({"analyze", ++done, static_cast<int64_t>(samples.size()), ""});
  }
  std::vector<ActivationError> errors;
  size_t at = 0;
  auto next = [&] { return totals[at++]; };
  for (size_t i = 0; i < pairs.size(); ++i) {
    ActivationError e{pairs[i].tensor, std::numeric_limits<double>::quiet_NaN(), 0, 0, {}};
    auto ratio = [&](size_t c, const std::vector<double>& signal, const std::vector<double>& noise) {
      return c < signal.size() && c < noise.size() ? decibels(signal[c], noise[c]) : 0;
    };
    if (!pairs[i].before.empty()) {
      auto signal = next(), noise = next();
      e.qdq_err = ratio(0, signal, noise);
    }
    auto signal = next(), noise = next();
    e.xmodel_err = ratio(0, signal, noise);
    if (sums.has_channels(i)) {
      signal = next(), noise = next();
      for (size_t c = 0; c < signal.size(); ++c) e.channels.push_back(ratio(c, signal, noise));
    }
    errors.push_back(std::move(e));
  }
  return errors;
}

std::vector<WeightError> weight_errors(const Model& float_model, const Comparison& comparison, bool channels) {
  GraphView floats(float_model);
  std::vector<WeightError> errors;
  for (const internal::WeightPair& pair : comparison.weights) {
    const Tensor& original = *floats.initializers.at(pair.tensor);
    std::vector<float> was = internal::to_floats(original), is = internal::to_floats(pair.now);
    const auto [outer, count, inner] = internal::strides(original.dims(), pair.channel_axis);
    std::vector<double> signal(count), noise(count);
    for (size_t i = 0; i < was.size(); ++i) {
      double difference = static_cast<double>(was[i]) - is[i];
      signal[i / inner % count] += static_cast<double>(was[i]) * was[i];
      noise[i / inner % count] += difference * difference;
    }
    WeightError e{pair.tensor,
                  weight_decibels(std::accumulate(signal.begin(), signal.end(), 0.0),
                                  std::accumulate(noise.begin(), noise.end(), 0.0)),
                  {}};
    for (size_t c = 0; channels && c < count; ++c) e.channels.push_back(weight_decibels(signal[c], noise[c]));
    errors.push_back(std::move(e));
  }
  return errors;
}

// Infinite is what a mask of -inf or of the lowest float gives: its square is no float, and says nothing of the others.
void score(std::vector<ActivationError>& errors) {
  auto normalized = [&](double ActivationError::* field) {
    double lowest = std::numeric_limits<double>::infinity(), highest = -lowest;
    for (const ActivationError& e : errors)
      if (std::isfinite(e.*field)) lowest = std::min(lowest, e.*field), highest = std::max(highest, e.*field);
    return [=](const ActivationError& e) {
      return std::isfinite(e.*field) ? (e.*field - lowest) / std::max(highest - lowest, 1e-12) : 0;
    };
  };
  auto xmodel = normalized(&ActivationError::xmodel_err), qdq = normalized(&ActivationError::qdq_err);
  for (ActivationError& e : errors) e.score = std::isfinite(e.qdq_err) ? 0.5 * xmodel(e) + 0.5 * qdq(e) : xmodel(e);
}

}  // namespace

Sensitivity analyze(const Model& float_model, const Model& quantized, const SampleRun& on,
                    const AnalyzeOptions& options) {
  Sensitivity result;
  Comparison comparison = internal::compare_tensors(float_model, quantized);
  bool channels = options.per_channel_detail;
  result.activations = activation_errors(float_model, comparison, on, channels);
  score(result.activations);
  std::stable_sort(result.activations.begin(), result.activations.end(),
                   [](const auto& a, const auto& b) { return a.score > b.score; });
  result.weights = weight_errors(float_model, comparison, channels);
  const auto published = [](const WeightError& e) { return std::isnan(e.sqnr) ? 0 : e.sqnr; };
  std::ranges::stable_sort(result.weights, std::ranges::greater(), published);
  return result;
}

std::vector<std::string> exclusion_order(const Sensitivity& sensitivity, const Model& float_model) {
  const internal::Edges edges(float_model.graph);
  std::vector<std::string> order;
  std::unordered_set<std::string> seen;
  auto add = [&](const std::string& tensor) {
    if (seen.insert(tensor).second) order.push_back(tensor);
    for (const Node* node : edges.readers(tensor))
      if (seen.insert(node->name).second) order.push_back(node->name);
  };
  for (const auto& e : sensitivity.activations) add(e.tensor);
  for (const auto& e : sensitivity.weights) add(e.tensor);
  return order;
}

}  // namespace seqto
