#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "model/op_traits.h"
#include "model/sort_nodes.h"
#include "quantization/arithmetic/channels.h"
#include "quantization/improve/channel_groups.h"
#include "quantization/improve/channel_noise.h"
#include "quantization/improve/smooth_groups.h"
#include "seqto/improve.h"

namespace seqto {

using namespace internal;

namespace {

// A channel that a Clip bounds keeps this much room above the largest value that the samples showed.
constexpr double kHeadroom = 1.1;
// What the samples hardly use, others may: such a channel is taken to reach this share of what the largest one reaches.
constexpr double kLeastReach = 0.5;
constexpr double kSmallestFactor = 1.0 / 16;  // below a Clip's bound
// Of a weight, evenly spaced: how the others would be rounded differs little.
constexpr size_t kMostRows = 128;

size_t inner_size(const Tensor& t, size_t axis) { return strides(t.dims(), static_cast<int64_t>(axis)).inner; }

// By channel.
std::vector<double> factors_of(const ChannelGroup::Layer& layer, const std::vector<double>& factors) {
  std::vector<double> own;
  for (size_t slot : layer.slots) own.push_back(slot == ChannelGroup::kNoSlot ? 1 : factors[slot]);
  return own;
}

// Tensors that are not rounded for themselves: what a Relu alone reads, whose output is, and what has the scale of the
// tensor that it was taken from. (What a Clip reads counts: it tells how near a channel is to being cut off.)
std::unordered_set<std::string> unrounded_tensors(const Model& model, const GraphView& index) {
  std::unordered_set<std::string> unrounded;
  for (const Node& node : model.graph.nodes) {
    if (is_relu(node) && index.edges.only_reader(node.inputs[0])) unrounded.insert(node.inputs[0]);
    if (has(node, kKeepsScale)) unrounded.insert(node.outputs.begin(), node.outputs.end());
  }
  return unrounded;
}

// Magnitudes of a reader's weight by row and column.
ChannelNoise::Reader reader_of(const Tensor& weight, WeightAxis axis, bool per_channel) {
  const auto values = weight.values<float>();
  const auto columns = static_cast<size_t>(weight.dims()[axis.axis]);
  const size_t inner = inner_size(weight, axis.axis);
  // The rows are on the other of the first two axes.
  const size_t rows = static_cast<size_t>(weight.dims()[1 - axis.axis]), kernel = values.size() / columns / rows;
  ChannelNoise::Reader reader;
  reader.energies.resize(columns);
  const bool own_scales = per_channel && !axis.depthwise;
  const size_t kept = std::min(rows, kMostRows);
  if (own_scales) reader.rows.assign(kept, std::vector<double>(columns));
  else if (!per_channel) reader.rows.assign(1, std::vector<double>(columns));
  reader.values = static_cast<double>(kernel * rows) / static_cast<double>(own_scales ? kept : 1);
  for (size_t i = 0; i < values.size(); ++i) {
    const double magnitude = std::abs(static_cast<double>(values[i]));
    const size_t column = i / inner % columns, row = axis.axis == 0 ? i / kernel % rows : i / (inner * columns);
    reader.energies[column] += magnitude * magnitude;
    if (reader.rows.empty()) continue;
    const size_t scale = own_scales ? row * kept / rows : 0;
    if (own_scales && (scale * rows + kept - 1) / kept != row) continue;  // the first row of those that it stands for
    double& largest = reader.rows[scale][column];
    largest = std::max(largest, magnitude);
  }
  return reader;
}

// A weight with one scale beside the tensor that it writes, whose mean squares are given. Taking what it reads for
// independent, their mean square is what it writes, relative to the weight's energy.
ChannelNoise::Activation writer_of(const Tensor& weight, size_t axis, std::vector<double> squares) {
  const auto values = weight.values<float>();
  const size_t rows = squares.size(), inner = inner_size(weight, axis);
  ChannelNoise::Activation writer{
      .slots = {}, .reach = std::vector<double>(rows), .squares = {}, .levels = 127, .terms = 0};
  double energy = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double magnitude = std::abs(static_cast<double>(values[i]));
    double& largest = writer.reach[i / inner % rows];
    largest = std::max(largest, magnitude);
    energy += magnitude * magnitude;
  }
  if (energy > 0)
    writer.terms = static_cast<double>(values.size()) / static_cast<double>(rows) *
                   std::accumulate(squares.begin(), squares.end(), 0.0) / energy;
  writer.squares = std::move(squares);
  return writer;
}

// A channel that the samples do not use is not enlarged for ever.
std::vector<double> usable_reach(std::vector<double> reach) {
  const double least = 1e-6 * *std::ranges::max_element(reach);
  for (double& r : reach) r = std::max(r, least);
  return reach;
}

bool is_usable(const ChannelSpread& spread) {
  const auto finite = [](const auto& values) {
    return std::ranges::all_of(values, [](double v) { return std::isfinite(v); });
  };
  return finite(spread.reach) && finite(spread.squares);
}

bool is_used(const ChannelSpread& spread) {
  return std::ranges::any_of(spread.largest, [](double v) { return v > 0; });
}

class Equalizer {
 public:
  Equalizer(const Model& model, const GraphView& index, const RewriteOptions& options)
      : model_(model), edges_(index.edges), options_(options), unrounded_(unrounded_tensors(model, index)) {
    for (const Initializer& i : model_.graph.initializers) weights_[i.name] = i.tensor;
  }

  // Channels in the second axis.
  void equalize(std::span<const ChannelGroup> groups, std::span<const ChannelSpread> spreads, const Env& env) {
    for (const ChannelGroup& group : groups) {
      env.stop_if_cancelled("quantize");
      const auto own = spreads.first(group.tensors.size());
      spreads = spreads.subspan(own.size());
      if (!agrees(group, own)) continue;
      ChannelNoise noise = noise_of(group, own);
      if (!group.cap) {
        apply(group, quietest_factors(noise));
        continue;
      }
      // What one scale for all weights asks for lies far beyond what a Clip allows, so that it has to be looked for
      // within. With a scale for each row it does not, and factors found without bounds cut off less on other samples.
      const std::vector<double> largest = largest_values(group, own), least = least_factors(*group.cap, largest);
      if (!options_.per_channel) noise.least = least;
      std::vector<double> factors = quietest_factors(noise);
      if (options_.per_channel) fill_cap(*group.cap, least, largest, factors);
      apply(group, factors);
    }
  }

  // Channels in the last axis: what layers read behind a normalization or another layer.
  void equalize(std::span<const SmoothGroup> groups, std::span<const ChannelSpread> spreads, const Env& env) {
    for (const SmoothGroup& group : groups) {
      env.stop_if_cancelled("quantize");
      const auto own = spreads.first(tensors_of(group).size());
      spreads = spreads.subspan(own.size());
      const bool agree = std::ssize(own[0].largest) == group.channels &&
                         std::ssize(own.back().largest) == group.source_channels &&
                         std::ranges::all_of(own, is_usable) && is_used(own[0]);
      if (!agree) continue;
      const std::vector<double> factors = quietest_factors(noise_of(group, own));
      std::vector<double> of_channels;
      for (size_t slot : slots_of(group)) of_channels.push_back(factors[slot]);
      for (const ChannelConstant& r : group.readers) scale_input(r.node, r.input, r.axis, of_channels, false);
      for (const ChannelConstant& f : group.folds) scale_input(f.node, f.input, f.axis, factors, true);
    }
  }

  // Whose spreads are wanted: its own, and its source.
  static std::vector<ChannelTensor> tensors_of(const SmoothGroup& group) {
    std::vector<ChannelTensor> tensors{{.name = group.tensor, .last_of = group.channels}};
    if (!group.source.empty()) tensors.push_back({.name = group.source, .last_of = group.source_channels});
    return tensors;
  }

  Model finish() {
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

  // Whether shapes do, and values are there and finite.
  bool agrees(const ChannelGroup& group, std::span<const ChannelSpread> spreads) const {
    bool any = false;
    for (size_t t = 0; t < spreads.size(); ++t) {
      if (spreads[t].largest.size() != group.tensors[t].slots.size()) return false;
      any |= is_used(spreads[t]);
      if (!is_usable(spreads[t])) return false;
    }
    const auto fits = [&](const ChannelGroup::Layer& layer, auto axis_of) {
      const Tensor& t = weight(node(layer.node));
      return t.dims()[axis_of(node(layer.node), t)->axis] == std::ssize(layer.slots);
    };
    return any && std::ranges::all_of(group.writers, [&](const auto& w) { return fits(w, written_axis); }) &&
           std::ranges::all_of(group.readers, [&](const auto& r) { return fits(r, read_axis); });
  }

  ChannelNoise noise_of(const ChannelGroup& group, std::span<const ChannelSpread> spreads) const {
    ChannelNoise noise{.slots = group.slots, .activations = {}, .readers = {}};
    for (size_t t = 0; t < spreads.size(); ++t) {
      if (unrounded_.contains(group.tensors[t].tensor.name)) continue;
      auto reach = usable_reach(spreads[t].reach);
      if (group.cap)
        for (double& r : reach) r = std::min<double>(r, *group.cap);
      noise.activations.push_back({group.tensors[t].slots, std::move(reach), spreads[t].squares});
    }
    const auto squares_of = [&](const std::string& tensor) -> const std::vector<double>* {
      const auto at = std::ranges::find(group.tensors, tensor, [](const auto& m) { return m.tensor.name; });
      return at == group.tensors.end() ? nullptr : &spreads[static_cast<size_t>(at - group.tensors.begin())].squares;
    };
    // With a scale for each row it is the same whatever the row is divided by.
    if (!options_.per_channel)
      for (const ChannelGroup::Layer& layer : group.writers) {
        const Node& n = node(layer.node);
        const auto* written = squares_of(n.outputs[0]);
        if (!written || is_batch_normalization(n)) continue;
        noise.activations.push_back(writer_of(weight(n), written_axis(n, weight(n))->axis, *written));
        noise.activations.back().slots = layer.slots;
      }
    for (const ChannelGroup::Layer& layer : group.readers) {
      const Node& n = node(layer.node);
      const auto* read = squares_of(n.inputs[0]);
      if (!read) continue;
      auto reader = reader_of(weight(n), *read_axis(n, weight(n)), options_.per_channel);
      reader.slots = layer.slots;
      reader.squares = *read;
      noise.readers.push_back(std::move(reader));
    }
    return noise;
  }

  static std::vector<size_t> counted(int64_t channels) {
    std::vector<size_t> slots(static_cast<size_t>(channels));
    std::iota(slots.begin(), slots.end(), size_t{0});
    return slots;
  }
  // Of the group's own tensor.
  static std::vector<size_t> slots_of(const SmoothGroup& group) {
    return group.slots.empty() ? counted(group.channels) : group.slots;
  }

  ChannelNoise noise_of(const SmoothGroup& group, std::span<const ChannelSpread> spreads) const {
    const ChannelSpread &spread = spreads.front(), &source = spreads.back();
    ChannelNoise noise{.slots = static_cast<size_t>(group.source_channels), .activations = {}, .readers = {}};
    noise.activations.push_back({slots_of(group), usable_reach(spread.reach), spread.squares});
    // A static model rounds both.
    if (!group.source.empty() && !options_.quantized_ops.empty())
      noise.activations.push_back({counted(group.source_channels), usable_reach(source.reach), source.squares});
    if (!options_.per_channel)
      for (const ChannelConstant& fold : group.folds) {
        const Node& n = node(fold.node);
        if (fold.input != 1 || !has(n, kProduct)) continue;
        noise.activations.push_back(writer_of(weight(n), fold.axis, source.squares));
        noise.activations.back().slots = counted(group.source_channels);
      }
    for (const ChannelConstant& r : group.readers) {
      auto reader = reader_of(weight(node(r.node)), {r.axis, false}, options_.per_channel);
      reader.slots = slots_of(group);
      reader.squares = spread.squares;
      noise.readers.push_back(std::move(reader));
    }
    return noise;
  }

  // Of each slot.
  static std::vector<double> largest_values(const ChannelGroup& group, std::span<const ChannelSpread> spreads) {
    std::vector<double> largest(group.slots);
    for (size_t t = 0; t < spreads.size(); ++t)
      for (size_t c = 0; c < spreads[t].largest.size(); ++c)
        if (const size_t slot = group.tensors[t].slots[c]; slot != ChannelGroup::kNoSlot)
          largest[slot] = std::max(largest[slot], spreads[t].largest[c]);
    return largest;
  }

  // The Clip's bound is the same for all channels: a channel may be enlarged until its largest value meets the bound,
  // and one that was cut off must stay as it is.
  static std::vector<double> least_factors(double cap, std::vector<double> largest) {
    const double least = kLeastReach * *std::ranges::max_element(largest);
    for (double& v : largest) v = std::clamp(kHeadroom * std::max(v, least) / cap, kSmallestFactor, 1.0);
    return largest;
  }

  // Brings the channel that comes nearest to the bound there, and the others with it.
  static void fill_cap(double cap, const std::vector<double>& least, const std::vector<double>& largest,
                       std::vector<double>& factors) {
    double peak = 0;
    for (size_t c = 0; c < factors.size(); ++c) peak = std::max(peak, largest[c] / factors[c]);
    for (size_t c = 0; c < factors.size(); ++c)
      factors[c] = std::clamp(factors[c] * peak * kHeadroom / cap, least[c], 1.0);
  }

  void apply(const ChannelGroup& group, const std::vector<double>& slot_factors) {
    for (const ChannelGroup::Layer& writer : group.writers) {
      const size_t w = writer.node;
      const std::vector<double> factors = factors_of(writer, slot_factors);
      size_t axis = written_axis(node(w), weight(node(w)))->axis;
      scale_input(w, 1, axis, factors, true);
      if (bias_input(node(w))) {
        const Tensor& bias = weights_.at(node(w).inputs[2]);
        if (holds_channels(bias, std::ssize(factors))) {
          scale_input(w, 2, bias.dims().size() - 1, factors, true);
        } else {  // Gemm: one value for every channel
          std::vector<float> values(factors.size(), static_cast<float>(element(bias, 0)));
          set_input(w, 2, scaled(float_tensor({static_cast<int64_t>(values.size())}, values), 0, factors, true));
        }
      }
    }
    for (const ChannelGroup::Layer& reader : group.readers)
      scale_input(reader.node, 1, read_axis(node(reader.node), weight(node(reader.node)))->axis,
                  factors_of(reader, slot_factors), false);
  }

  void scale_input(size_t i, size_t input, size_t axis, const std::vector<double>& factors, bool divide) {
    set_input(i, input, scaled(weights_.at(node(i).inputs[input]), axis, factors, divide));
  }

  // A weight that other nodes read too is copied first.
  void set_input(size_t i, size_t input, Tensor tensor) {
    std::string& name = model_.graph.nodes[i].inputs[input];
    if (edges_.uses(name) > 1 + shared_copies_[name]) {
      ++shared_copies_[name];
      name = node(i).name + "_equalized_" + name;
      copies_.push_back({name, {}});
    }
    weights_[name] = std::move(tensor);
  }

  Model model_;
  const Edges& edges_;  // as they were
  const RewriteOptions& options_;
  std::unordered_set<std::string> unrounded_;
  std::unordered_map<std::string, Tensor> weights_;
  std::unordered_map<std::string, size_t> shared_copies_;  // by the weight, readers that took one
  std::vector<Initializer> copies_;
};

}  // namespace

Model equalize(const Model& model, const SampleRun& on, const RewriteOptions& options) {
  const auto& [data, samples, runner, env] = on;
  if (samples.empty()) return model;
  const GraphView index(model);
  const auto unwanted = [&](const auto& group) {
    return options.readers && std::ranges::none_of(group.readers, [&](const auto& reader) {
             return options.readers(model.graph.nodes[reader.node].name);
           });
  };
  const ChannelMoves moves = trace_channel_moves(model, index, {data, samples.first(1), runner, env});
  std::vector<ChannelGroup> groups = find_channel_groups(model, index, moves);
  std::vector<ChannelTensor> tensors;
  std::unordered_set<std::string> taken;
  for (const ChannelGroup& group : groups)
    for (const ChannelGroup::Member& member : group.tensors) taken.insert(member.tensor.name);
  std::erase_if(groups, unwanted);
  std::vector<SmoothGroup> last = find_smooth_groups(model, index, options.quantized_ops, true);
  std::erase_if(last, [&](const SmoothGroup& group) {
    return group.folds.empty() || taken.contains(group.tensor) || unwanted(group);
  });
  find_slots(model, last, on);
  if (groups.empty() && last.empty()) return model;
  for (const ChannelGroup& group : groups)
    for (const ChannelGroup::Member& member : group.tensors) tensors.push_back(member.tensor);
  const size_t second = tensors.size();
  for (const SmoothGroup& group : last) std::ranges::move(Equalizer::tensors_of(group), std::back_inserter(tensors));
  const std::vector<ChannelSpread> spreads = channel_spreads(model, tensors, on);
  Equalizer equalizer(model, index, options);
  equalizer.equalize(groups, std::span(spreads).first(second), env);
  equalizer.equalize(last, std::span(spreads).subspan(second), env);
  return equalizer.finish();
}

}  // namespace seqto
