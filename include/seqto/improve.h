// Room: quantization. What makes a quantized model more accurate and costs nothing when it runs.
//
// The file stays a plain one of the same size, with the same operators.
//
// Before calibration a model can be rewritten into an equal one that is easier to quantize (center, equalize, smooth);
// after quantization the biases can take up the layers' mean error (bias_shifts, shift_biases). docs/accuracy.md tells
// what each is worth on real models.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "seqto/dataset.h"
#include "seqto/quantize.h"
#include "seqto/runner.h"

namespace seqto {

// Which layers a rewriting is for; none given: all. It changes the tensors that one of these layers reads, and what is
// linked with them.
using LayerPredicate = std::function<bool(const LayerId&)>;

// --- centering ---------------------------------------------------------------------------------

// The same function with channels that lie around zero, so that one scale need not span their offsets (the shift of Wei
// et al. 2023, Outlier Suppression+, for convolutions): a layer that writes a tensor lowers each channel by the middle
// of its range on the samples, in its bias, and the layers that read it take that back in theirs. Where tensors are
// linked by Add, all of them come as near to the middle as they can. Readers: Gemm, and Conv without padding, whose
// border would not be moved; so it is mostly the linear bottlenecks of mobile networks that change. One pass over the
// samples; no operator is added. Biases then carry more: let the quantized layers' errors of the mean be corrected
// (learn_rounding, bias_shifts).
Model center(const Model& model, const Dataset& data, std::span<const int64_t> samples, Runner& runner,
             const Env& env = {}, const LayerPredicate& readers = {});

// --- equalization ------------------------------------------------------------------------------

struct EqualizeOptions {
  // The weights will have a scale for each channel; depthwise layers then take up any difference.
  bool per_channel = false;
  LayerPredicate readers;
};
// The same function with channels that share a scale better (Nagel et al. 2019, section 4.1, who even out ranges):
// where a layer writes what others read through operators that let a positive factor pass (Relu, pooling, Add of two
// such tensors) or that only move values (Concat, Split, a channel shuffle, Slice, Pad with zeros, Flatten), each
// channel is divided by a factor there and its weights multiplied here. The factors are those under which rounding
// tensors and weights to 8 bits is expected to change least of what the reading layers write
// (src/quantization/channel_noise.h); what a channel may reach is told from the largest values of all samples, not from
// the very largest alone, which others will exceed. Through a Clip(0, b) only as far as the samples leave room below b,
// no channel being taken to reach less than half of what the largest one does: on other samples the model may then cut
// off values that lie above all that were seen, as quantization does. One pass over the samples; no operator is added.
Model equalize(const Model& model, const Dataset& data, std::span<const int64_t> samples, Runner& runner,
               const EqualizeOptions& = {}, const Env& env = {});

// --- smoothing ---------------------------------------------------------------------------------

struct SmoothOptions {
  // How much of the difference between an activation's channels goes into the weights: 0 evens out the weights alone, 1
  // the activations alone. Unset: for each activation the one from 0.3 to 0.9 under which its layers' outputs come
  // nearest to the float ones on a few samples, or none where that is nearer.
  std::optional<double> alpha = 0.5;
  bool per_channel = false;  // the weights will have a scale for each output channel; only asked where alpha is unset
  // Op types whose outputs will be quantized: behind them a Mul would come too late, and none is added; nor is a
  // division folded through such a Relu, whose input is quantized with values that its output does not show.
  std::vector<std::string> quantized_ops;
  LayerPredicate readers;
};
// The same function with activations of MatMul and Gemm that have no outlier channels (Xiao et al. 2022, SmoothQuant):
// channel k is divided by max|X_k|^alpha / max|W_k|^(1-alpha), the weights multiplied. The division is folded into the
// normalization, Mul, MatMul, Gemm or Conv that X comes from, also through Relu, Transpose and the Add of a bias; where
// X has another reader, or comes from anything else, a Mul named `<X>_smooth` is added in front of its layers. Weights
// that other nodes share or that are inputs of the model stay as they are. One pass over the samples in constant
// memory.
Model smooth(const Model& model, const Dataset& data, std::span<const int64_t> samples, Runner& runner,
             const SmoothOptions& = {}, const Env& env = {});
// The Mul nodes that smooth() added: to be left in float, since they divide before anything is rounded.
std::vector<LayerId> smoothing_layers(const Model& model);

// --- bias correction ---------------------------------------------------------------------------

// Rounding shifts the mean of a layer's output, channel by channel; the bias can take the shift back
// (Nagel et al. 2019, section 4.2). Layers: Conv, ConvTranspose and Gemm with constant weights that have the same name
// in both models, static (int32 biases) or with quantized weights alone (float biases). A layer without bias gets one.
enum class BiasCorrection {
  kNone,
  kFast,  // each layer's own error, on the float model's activations: one pass over the samples, and the shifts of a
          // layer hold whatever other layers are quantized
  kFull,  // layer after layer in the quantized model itself, its layers before corrected: one pass for each depth
};
std::string_view to_string(BiasCorrection correction);        // "none", "fast", "full"
BiasCorrection parse_bias_correction(std::string_view name);  // throws Error{kUsage}

// What to add to the biases, by layer and output channel, in real values.
using BiasShifts = std::map<LayerId, std::vector<float>>;

// Streams the samples in constant memory; only channel means leave the runtime. `quantized` was made of `float_model`.
BiasShifts bias_shifts(const Model& float_model, const Model& quantized, BiasCorrection correction, const Dataset& data,
                       std::span<const int64_t> samples, Runner& runner, const Env& env = {});

// The quantized model, in QDQ or QOperator form, with shifted biases, int32 biases in their own steps. Shifts of layers
// that are not in the model, or that it holds in float, have no effect. A bias that several layers share is copied.
Model shift_biases(const Model& quantized, const BiasShifts& shifts);

}  // namespace seqto
