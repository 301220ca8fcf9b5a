// Scales of stored weights, block by block, under which the layer's outputs change least.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "model/op_traits.h"
#include "quantization/arithmetic/arithmetic.h"
#include "quantization/calibration/channel_means.h"
#include "quantization/improve/coded_layers.h"
#include "seqto/improve.h"

namespace seqto {
namespace {

using namespace internal;

// Where the search starts from: so much of the scale that takes in every value. Fits move on from there.
constexpr std::array kShares = {1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55, 0.5};
constexpr int kFits = 3;
// Of the mean over the inputs: one that the samples hardly used may be used by others.
constexpr double kLeastImportance = 0.01;

// --- one block

struct Codes {
  double scale = 0;
  int32_t zero_point = 0;
  std::vector<int32_t> values;
  double error = 0;
};

struct Block {
  std::vector<float> values;
  std::vector<double> importance;
  std::vector<size_t> places;  // of the codes
  int32_t lowest = 0, highest = 0;

  double error(const Codes& codes) const {
    double sum = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double off = values[i] - codes.scale * (codes.values[i] - codes.zero_point);
      sum += importance[i] * off * off;
    }
    return sum;
  }

  void round(Codes& codes) const {
    codes.values.resize(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const double code = std::nearbyint(values[i] / codes.scale) + codes.zero_point;
      codes.values[i] = static_cast<int32_t>(std::clamp<double>(code, lowest, highest));
    }
  }

  // The scale under which these codes have the least error; false where there is none.
  bool fit(Codes& codes) const {
    double xq = 0, qq = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double q = codes.values[i] - codes.zero_point;
      xq += importance[i] * values[i] * q;
      qq += importance[i] * q * q;
    }
    codes.scale = static_cast<float>(qq > 0 ? xq / qq : 0);
    return codes.scale != 0 && std::isfinite(codes.scale);
  }

  // Never worse than what there is.
  void search(Codes& best, bool moves_zero_point) const {
    const double whole = best.scale;
    const int32_t middle = best.zero_point, reach = moves_zero_point ? 1 : 0;
    Codes next;
    for (int32_t zero = std::max(lowest, middle - reach); zero <= std::min(highest, middle + reach); ++zero)
      for (const double share : kShares) {
        next.scale = share * whole, next.zero_point = zero;
        for (int f = 0; f < kFits; ++f) {
          round(next);
          if (!fit(next)) break;
          next.error = error(next);
          if (next.error < best.error) best = next;
        }
      }
  }
};

// --- one layer

// For each input of an output, by group: the mean square of its channel.
class Importance {
 public:
  Importance(const std::vector<double>& squares, const WeightLayout& layout)
      : squares_(squares),
        channels_(std::ssize(squares) / layout.groups),
        outputs_(layout.outputs / layout.groups),
        kernel_(std::max<int64_t>(1, layout.inputs / std::max<int64_t>(1, channels_))) {
    double sum = 0;
    for (const double s : squares) sum += s;
    least_ = sum > 0 ? kLeastImportance * sum / static_cast<double>(squares.size()) : 1;
  }
  double of(int64_t output, int64_t input) const {
    return std::max(squares_[static_cast<size_t>(output / outputs_ * channels_ + input / kernel_)], least_);
  }

 private:
  const std::vector<double>& squares_;
  int64_t channels_, outputs_, kernel_;
  double least_ = 1;
};

// The blocks of one output, by the index of their scale; their errors are added in this order.
std::map<size_t, Block> blocks_of(const CodedLayer& layer, int64_t output, const std::vector<float>& values,
                                  const Importance& importance) {
  const CodedWeight& w = layer.weight;
  std::map<size_t, Block> blocks;
  for (int64_t i = 0; i < layer.layout.inputs; ++i) {
    const size_t place = w.code_at(layer.layout.at(output, i));
    Block& block = blocks[w.scale_at(place)];
    block.values.push_back(values[layer.original->layout.at(output, i)]);
    block.importance.push_back(importance.of(output, i));
    block.places.push_back(place);
  }
  return blocks;
}

// Nothing where outputs share a scale.
std::optional<RescaledLayer> rescaled(const CodedLayer& layer, const std::vector<double>& squares) {
  const CodedWeight& w = layer.weight;
  const std::vector<float> values = to_floats(*layer.original->weight);
  const Importance importance(squares, layer.layout);
  std::vector<int32_t> codes = w.unpacked();  // what is no weight stays
  RescaledLayer found{.scale = w.scale, .zero_point = w.zero_point, .scale_before = w.scale};
  const bool has_zero_points = w.scale.size() > 1 && w.zero_point.size() == w.scale.size();
  std::vector<bool> seen(w.scale.size());
  for (int64_t o = 0; o < layer.layout.outputs; ++o)
    for (auto& [at, block] : blocks_of(layer, o, values, importance)) {
      if (seen[at]) return {};
      seen[at] = true;
      block.lowest = w.lowest, block.highest = w.highest;
      int32_t& zero = found.zero_point[w.zero_point.size() == 1 ? 0 : at];
      Codes best{w.scale[at], zero, {}, 0};
      for (const size_t place : block.places) best.values.push_back(codes[place]);
      best.error = block.error(best);
      found.error_before += best.error;
      if (best.scale != 0) block.search(best, has_zero_points);
      found.error_after += best.error;
      found.scale[at] = static_cast<float>(best.scale), zero = best.zero_point;
      for (size_t i = 0; i < block.places.size(); ++i) codes[block.places[i]] = best.values[i];
    }
  found.codes = w.packed(codes);
  return found;
}

// Where the channels of a layer's inputs are.
ChannelTensor input_of(const CodedLayer& layer) {
  const FloatLayer& original = *layer.original;
  if (has(*original.node, kMatrixProduct)) return {original.node->inputs[0], 2, 1, layer.layout.inputs};
  return {original.node->inputs[0], original.weight->dims().size()};
}

}  // namespace

Rescaling search_scales(const Remade& quantized, const SampleRun& on) {
  const Model& model = quantized.quantizer.model();
  const GraphView floats(model);
  const Model before = quantized.with({});
  Encoding encoding = *quantized.quantizer.encoding();
  EncodedLayers encoded(encoding, model, floats);
  std::vector<CodedLayer> layers = coded_layers(before, encoded);
  std::vector<ChannelTensor> inputs;
  std::unordered_map<std::string, size_t> input_at;
  std::erase_if(layers, [&](const CodedLayer& layer) {
    if (!layer.original || !layer.is_stored) return true;
    const ChannelTensor input = input_of(layer);
    const auto [it, is_new] = input_at.emplace(input.name, inputs.size());
    if (is_new) inputs.push_back(input);
    return inputs[it->second].last_of != input.last_of;  // read as rows here and as a plane there
  });
  Rescaling result;
  if (layers.empty()) return result;
  const std::vector<ChannelSpread> spreads = channel_spreads(model, inputs, on);
  int64_t done = 0;
  for (const CodedLayer& layer : layers) {
    on.env.stop_if_cancelled("scales");
    on.env.progress({"scales", done++, std::ssize(layers), ""});
    auto found = rescaled(layer, spreads[input_at.at(layer.original->node->inputs[0])].squares);
    if (!found) continue;
    on.env.log(LogLevel::kDebug, fmt::format("scales of {}: weighted error {:.4g} instead of {:.4g}", layer.node->name,
                                             found->error_after, found->error_before));
    result[layer.node->name] = std::move(*found);
  }
  on.env.progress({"scales", done, done, ""});
  return result;
}

}  // namespace seqto
