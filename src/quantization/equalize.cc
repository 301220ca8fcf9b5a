#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "model/sort_nodes.h"
#include "quantization/channel_groups.h"
#include "seqto/improve.h"

namespace seqto {

using namespace internal;

namespace {

// Factors stay within this of their mean, so that a channel that is never used does not drown the others.
constexpr double kLargestFactor = 16;
// A channel that a Clip bounds keeps this much room above the largest value that the samples showed.
constexpr double kHeadroom = 1.1;
// What the samples hardly use, others may: such a channel is taken to reach this share of what the largest one reaches.
constexpr double kLeastReach = 0.5;

size_t inner_size(const Tensor& t, size_t axis) {
  size_t size = 1;
  for (size_t d = axis + 1; d < t.dims().size(); ++d) size *= static_cast<size_t>(t.dims()[d]);
  return size;
}

// Largest magnitude by index of `axis`.
std::vector<double> weight_ranges(const Tensor& weight, size_t axis) {
  size_t channels = static_cast<size_t>(weight.dims()[axis]), inner = inner_size(weight, axis);
  std::vector<double> ranges(channels);
  auto values = weight.values<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    double& range = ranges[i / inner % channels];
    range = std::max(range, std::abs(static_cast<double>(values[i])));
  }
  return ranges;
}

Tensor scaled(const Tensor& tensor, size_t axis, const std::vector<double>& factors, bool divide) {
  size_t inner = inner_size(tensor, axis);
  auto in = tensor.values<float>();
  std::vector<float> out(in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    double f = factors[i / inner % factors.size()];
    out[i] = static_cast<float>(divide ? in[i] / f : in[i] * f);
  }
  return float_tensor(tensor.dims(), std::move(out));
}

class Equalizer {
 public:
  Equalizer(const Model& model, const EqualizeOptions& options) : model_(model), options_(options), index_(model) {
    for (const Initializer& i : model_.graph.initializers) weights_[i.name] = i.tensor;
    for (const Node& n : model_.graph.nodes) for_each_read(n, [&](const std::string& name) { ++uses_[name]; });
  }

  Model run(const std::vector<ChannelGroup>& groups, const std::vector<std::vector<float>>& maxima) {
    size_t first = 0;
    for (const ChannelGroup& group : groups) {
      auto own = std::span(maxima).subspan(first, group.tensors.size());
      first += group.tensors.size();
      if (auto factors = factors_of(group, own)) apply(group, *factors);
    }
    for (Initializer& i : model_.graph.initializers)
      if (auto it = weights_.find(i.name); it != weights_.end()) i.tensor = it->second;
    for (Initializer& i : copies_) {
      i.tensor = weights_.at(i.name);
      model_.graph.initializers.push_back(i);
    }
    drop_unused_initializers(model_.graph);
    return std::move(model_);
  }

 private:
  const Node& node(size_t i) const { return model_.graph.nodes[i]; }
  const Tensor& weight(const Node& n) const { return weights_.at(n.inputs[1]); }

  // What the tensors' channels are divided by; nothing where shapes do not agree.
  std::optional<std::vector<double>> factors_of(const ChannelGroup& group,
                                                std::span<const std::vector<float>> maxima) const {
    size_t channels = maxima[0].size();
    std::vector<double> activations(channels), columns(channels);
    for (const auto& m : maxima) {
      if (m.size() != channels) return {};
      for (size_t c = 0; c < channels; ++c) activations[c] = std::max<double>(activations[c], m[c]);
    }
    for (size_t w : group.writers)
      if (weight(node(w)).dims()[written_axis(node(w), weight(node(w)))->axis] != static_cast<int64_t>(channels))
        return {};
    bool depthwise = options_.per_channel;
    for (size_t r : group.readers) {
      const Tensor& t = weight(node(r));
      WeightAxis axis = *read_axis(node(r), t);
      if (t.dims()[axis.axis] != static_cast<int64_t>(channels)) return {};
      auto ranges = weight_ranges(t, axis.axis);
      for (size_t c = 0; c < channels; ++c) columns[c] = std::max(columns[c], ranges[c]);
      depthwise = depthwise && axis.depthwise;
    }
    // One scale for each filter takes a factor up whole; one scale for many shares the burden.
    double share = depthwise ? 1.0 : options_.activation_share;
    double smallest_activation = 1e-6 * *std::ranges::max_element(activations);
    double smallest_column = 1e-6 * *std::ranges::max_element(columns);
    if (smallest_activation <= 0 || smallest_column <= 0) return {};
    std::vector<double> factors(channels);
    double mean = 0;
    for (size_t c = 0; c < channels; ++c) {
      factors[c] = share * std::log(std::max(activations[c], smallest_activation)) -
                   (1 - share) * std::log(std::max(columns[c], smallest_column));
      mean += factors[c] / static_cast<double>(channels);
    }
    for (double& f : factors) f = std::clamp(std::exp(f - mean), 1 / kLargestFactor, kLargestFactor);
    if (group.cap) respect_cap(*group.cap, activations, factors);
    return factors;
  }

  // The Clip's bound is the same for all channels: a channel may be enlarged until its largest value meets the bound,
  // and one that was cut off must stay as it is.
  static void respect_cap(double cap, const std::vector<double>& activations, std::vector<double>& factors) {
    double peak = 0, least = kLeastReach * *std::ranges::max_element(activations);
    for (size_t c = 0; c < factors.size(); ++c) peak = std::max(peak, activations[c] / factors[c]);
    for (size_t c = 0; c < factors.size(); ++c) {
      double smallest = std::max(kHeadroom * std::max(activations[c], least) / cap, 1 / kLargestFactor);
      factors[c] = std::min(1.0, std::max(factors[c] * peak * kHeadroom / cap, smallest));
    }
  }

  void apply(const ChannelGroup& group, const std::vector<double>& factors) {
    for (size_t w : group.writers) {
      size_t axis = written_axis(node(w), weight(node(w)))->axis;
      scale_input(w, 1, axis, factors, true);
      if (node(w).inputs.size() > 2 && !node(w).inputs[2].empty()) {
        const Tensor& bias = weights_.at(node(w).inputs[2]);
        if (bias.element_count() == static_cast<int64_t>(factors.size())) {
          scale_input(w, 2, bias.dims().size() - 1, factors, true);
        } else {  // Gemm: one value for every channel
          std::vector<float> values(factors.size(), static_cast<float>(element(bias, 0)));
          set_input(w, 2, scaled(float_tensor({static_cast<int64_t>(values.size())}, values), 0, factors, true));
        }
      }
    }
    for (size_t r : group.readers) scale_input(r, 1, read_axis(node(r), weight(node(r)))->axis, factors, false);
  }

  void scale_input(size_t i, size_t input, size_t axis, const std::vector<double>& factors, bool divide) {
    set_input(i, input, scaled(weights_.at(node(i).inputs[input]), axis, factors, divide));
  }

  // A weight that other nodes read too is copied first.
  void set_input(size_t i, size_t input, Tensor tensor) {
    std::string& name = model_.graph.nodes[i].inputs[input];
    if (uses_[name] > 1) {
      --uses_[name];
      name = node(i).name + "_equalized_" + name;
      uses_[name] = 1;
      copies_.push_back({name, {}});
    }
    weights_[name] = std::move(tensor);
  }

  Model model_;
  const EqualizeOptions& options_;
  GraphIndex index_;
  std::unordered_map<std::string, Tensor> weights_;
  std::unordered_map<std::string, int> uses_;
  std::vector<Initializer> copies_;
};

}  // namespace

Model equalize(const Model& model, const Dataset& data, std::span<const int64_t> samples, Runner& runner,
               const EqualizeOptions& options, const Env& env) {
  GraphIndex index(model);
  auto groups = find_channel_groups(model, index);
  if (options.readers)
    std::erase_if(groups, [&](const ChannelGroup& group) {
      return std::ranges::none_of(group.readers,
                                  [&](size_t reader) { return options.readers(model.graph.nodes[reader].name); });
    });
  if (groups.empty() || samples.empty()) return model;
  std::vector<ChannelTensor> tensors;
  for (const ChannelGroup& group : groups) tensors.insert(tensors.end(), group.tensors.begin(), group.tensors.end());
  return Equalizer(model, options).run(groups, channel_maxima(model, tensors, data, samples, runner, env));
}

}  // namespace seqto
