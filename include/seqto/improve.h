// Room: quantization. Improvers: what lowers the loss of a quantized model without changing its form.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "seqto/calibrate.h"
#include "seqto/dataset.h"
#include "seqto/plan.h"
#include "seqto/quantize.h"
#include "seqto/runner.h"

namespace seqto {

// --- What makes a quantized model more accurate and costs nothing when it runs
//
// The file stays a plain one of the same size, with the same operators.
//
// Before calibration a model can be rewritten into an equal one that is easier to quantize (center, equalize, smooth).
// After quantization the biases can take up the layers' mean error (bias_shifts, shift_biases). docs/design/accuracy.md
// tells what each is worth on real models.

using LayerPredicate = std::function<bool(const LayerId&)>;

struct RewriteOptions {
  // Which layers a rewriting is for; none given: all. It changes the tensors that one of these layers reads, and what
  // is linked with them.
  LayerPredicate readers;
  // The weights will have a scale for each output channel; depthwise layers then take up any difference.
  bool per_channel = false;
  // Op types whose outputs will be quantized. Smoothing's Mul would come too late behind them, and none is added. No
  // division is folded through such a Relu, whose input is quantized with values that its output does not show.
  std::vector<std::string> quantized_ops;
  // How much of the difference between an activation's channels smoothing moves into the weights: 0 evens out the
  // weights alone, 1 the activations alone. Unset: each activation gets the one from 0.3 to 0.9, or none, under which
  // its layers' outputs come nearest to the float ones on a few samples.
  std::optional<double> smooth_alpha = 0.5;
};

// --- centering ---------------------------------------------------------------------------------

// The same function with channels around zero, so that one scale need not span their offsets (the shift of Wei et al.
// 2023, Outlier Suppression+, for convolutions). A layer that writes a tensor lowers each channel, in its bias, by the
// middle of its range on the samples. The layers that read it take that back in their biases. Where tensors are
// linked by Add, all of them come as near to the middle as they can. Readers: Gemm, and Conv without padding, whose
// border would not be moved; so it is mostly the linear bottlenecks of mobile networks that change. One pass over the
// samples; no operator is added. Biases then carry more: let the quantized layers' errors of the mean be corrected
// (learn_rounding, bias_shifts).
Model center(const Model& model, const SampleRun& on, const RewriteOptions& = {});

// --- equalization ------------------------------------------------------------------------------

// The same function with channels that share a scale better (Nagel et al. 2019, section 4.1, who even out ranges). The
// layer that writes a tensor divides each channel by a factor; the layers that read it multiply their weights. Between
// them may be operators that let a positive factor pass (Relu, pooling, Add of two such tensors), or that only move
// values (Concat, Split, a channel shuffle, Slice, Pad with zeros, Flatten). Rounding tensors and weights to 8 bits is
// expected to change the outputs of the reading layers least under these factors (channel_noise.h). The largest values
// of all samples tell what a channel may reach; the very largest alone would not, since others will exceed it. A
// Clip(0, b) lets factors pass as far as the samples leave room below b. No channel is taken to reach less than half of
// what the largest one does: on other samples the model may cut off values above all that were seen, as quantization
// does. What MatMul and Gemm read with its channels last is divided where smoothing would divide it (smooth), in a
// normalization or another layer, and stays as it is where that takes a Mul. Behind a gate (a product of two
// activations) one factor's layer divides, behind an attention that of the values, a factor for the channels that its
// heads share. One pass over the samples, and one over a single one; no operator is added.
Model equalize(const Model& model, const SampleRun& on, const RewriteOptions& = {});

// --- smoothing ---------------------------------------------------------------------------------

// The same function with activations of MatMul and Gemm that have no outlier channels (Xiao et al. 2022, SmoothQuant):
// channel k is divided by max|X_k|^alpha / max|W_k|^(1-alpha), the weights multiplied. The division is folded into the
// normalization, Mul, MatMul, Gemm or Conv that X comes from, also through Relu, Transpose and the Add of a bias. Where
// X has another reader, or comes from anything else, a Mul named `<X>_smooth` is added in front of its layers. Weights
// that other nodes share or that are inputs of the model stay as they are. One pass over the samples in constant
// memory.
Model smooth(const Model& model, const SampleRun& on, const RewriteOptions& = {});
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

// A quantized model that is made again with what was found meanwhile. All of it outlives this.
struct Remade {
  Quantizer& quantizer;
  const Plan& plan;
  std::vector<Corrections> found = {};  // before

  // Layers among operators on codes are written in pairs: their inputs can then be looked at.
  Model with(Corrections more) const;
};

// Beside what was found before. Streams the samples in constant memory; only channel means leave the
// runtime.
BiasShifts bias_shifts(const Remade& quantized, BiasCorrection correction, const SampleRun& on);

// --- Scales searched on data
//
// The scale that takes in every value of a block wastes codes on a few large ones. Here each block of a weight that is
// only stored gets the scale, and where it has one the zero point, with the least squared error of its values, each
// weighted by the mean square of the input that it is multiplied with (as llama.cpp does with an importance matrix; the
// same is behind the clipping of Lin et al. 2023, AWQ). Scales that share less of the range are tried, and each is
// fitted to its codes by least squares. Not below learned roundings: these need the values beyond a narrower range.

// Layers: as learn_rounding, those of int8_weights and int4_weights. Deterministic. Cost: one pass over the samples,
// and about a second for each million weights. File and speed stay what they were.
Rescaling search_scales(const Remade& quantized, const SampleRun& on);

// --- Rounding learned on data
//
// Each weight goes up or down so that its layer's output, not the weight itself, comes nearest to the float model's.
// The layers are taken in the order of the graph. A layer's inputs are those that it really gets, from the quantized
// layers before it; the target is its output in the float model. Both enter as second moments, collected in one pass
// for each depth of the graph. A pass goes on from the values that finished layers gave, where these take 192 MiB at
// most for all samples; so memory has a bound. Given the moments the answer is closed:
// successive rounding along a Cholesky factor (as OBQ and GPTQ do; Nagel et al. 2020 state the objective), a few sweeps
// of coordinate descent, and a bias that takes up what is left of the mean. How far the moments are trusted is chosen
// for each layer by what is learned on half of the samples and judged by the other half. Scales and zero points stay,
// so file and speed stay what they were, and codes of a reduced range stay in it.

struct RoundingOptions {
  // Samples used at most, the first ones.
  int64_t max_samples = 128;
  // Rows of a layer's moments, over all samples, for each of its weights of one output; more make the moments
  // steadier, fewer the pass faster. Positions of a big feature map beyond that are skipped evenly.
  int64_t rows_per_weight = 32;
  int64_t max_rows = 1 << 15;  // for wide layers; fewer rows than that are not cut
  // Layers with more weights of one output are left as they are: time grows with the cube. 0: no limit.
  int64_t max_inputs = 0;
  // Asked before each step, of the layers that lie equally deep; true: those that are left stay as they are.
  std::function<bool()> enough;
};

// Layers: Conv (1-D, 2-D, grouped), Gemm and MatMul with constant weights of 2 to 16 bits that nothing else reads, in
// any form that Quantizer writes. Others are left alone. Deterministic. Cost: both networks run once or a few times, up
// to half as often as they are deep where nothing can be kept.
Rounding learn_rounding(const Remade& quantized, const SampleRun& on, const RoundingOptions& = {});

// --- Ranges of activations chosen by what the network makes of them
//
// A calibrator looks at one tensor; whether its few large values matter only shows at the outputs. Here every range is
// narrowed as far as the outputs of the quantized model come nearer to the float model's. Nothing but scales and zero
// points changes, so file and speed stay what they were.

struct RefineOptions {
  // Samples used at most, evenly spaced; they are held in memory, with the float model's outputs.
  int64_t max_samples = 32;
  // What a quantized model has as it will be used: learned codes, corrected biases. A range is then not chosen because
  // its error happens to make up for another's mean.
  Corrections corrections;
};

// What a quantized model is made of: Quantizer(model, ranges, options).quantize(plan). All of it outlives this.
struct Candidate {
  const Model& model;
  const Ranges& ranges;
  const QuantizeOptions& options;
  const Plan& plan;
};
// The candidate's ranges with some of them narrowed, for the static layers of its plan.
//
// In graph order the ends of each range are tried at 0.9, 0.8 ... of their values (with power_of_two_scales at half),
// as long as it helps: both together, then the upper and the lower alone. It helps where the squared error of all
// outputs falls by half a percent, each relative to the float output's square, summed over the samples. It has to fall
// on either half of the samples: a range that serves one half alone would not serve others.
//
// Cost: three or more quantized models for each tensor, loaded and run on the samples. Deterministic.
// Throws Error{kInvalidInput} as Quantizer does.
Ranges refine_ranges(const Candidate& candidate, const SampleRun& on, const RefineOptions& = {});

// --- Ranges that end where nothing changes any more
//
// What Sigmoid, HardSwish and the like alone read, or SiLU as Mul(x, Sigmoid(x)), needs codes only where their answers
// change: between -10 and its highest value for a SiLU, whose inputs may reach -50. The step of the codes is finer.

// The ranges, those of such tensors cut. Ends are where the answer is within 0.0005 of what it tends to.
Ranges cut_ranges(const Model& model, Ranges ranges);

// --- All improvers as one set of options, in the order in which they work together
//
//   model    = rewrite_for(...)        before calibration: center, equalize, smooth
//   ranges   = calibrate(model, ...)
//   improved = improve(...)            once: cut ranges, learned rounding, refined ranges, corrected biases
//   file     = Quantizer(model, improved.ranges, ...).quantize(plan, {improved.corrections})
//
// What is found for one plan serves every other plan of the same model too: codes and biases belong to layers of a
// scheme and its fields (SchemeCorrections). docs/design/accuracy.md tells what each is worth.

struct ImproveOptions {
  bool center = false;
  bool equalize = false;
  bool smooth = false;
  std::optional<double> smooth_alpha = 0.5;  // RewriteOptions::smooth_alpha
  bool cut_ranges = false;
  bool scale_search = false;  // of layers whose rounding is not learned
  bool learned_rounding = false;
  int64_t max_rounding_inputs = 0;  // RoundingOptions::max_inputs; of wider layers the biases are corrected, fast
  bool refine_ranges = false;
  BiasCorrection bias_correction = BiasCorrection::kNone;  // after the others

  bool rewrites() const;  // before calibration
  bool corrects() const;  // after it
  bool operator==(const ImproveOptions&) const = default;
};
// int8_weights and int4_weights: activations stay exact.
constexpr bool is_weight_only(Scheme scheme) {
  return scheme == Scheme::kInt8Weights || scheme == Scheme::kInt4Weights;
}
// What activations are quantized for can be rewritten.
constexpr bool quantizes_activations(Scheme scheme) { return is_static(scheme) || scheme == Scheme::kInt8Dynamic; }
enum class ImproverKind {
  kModel,     // the float model into an equal one, before calibration; the others come after it
  kRanges,    // ranges of activations into others
  kEncoding,  // codes and biases of quantized layers into others
};
namespace internal {
struct Improving;
}
// What the program knows of an improver. Plans, studies, flags, messages and tune go by these rows.
struct Improver {
  const char* name = nullptr;  // of the option in JSON
  ImproverKind kind{};
  const char* flag = nullptr;  // what asks for it on the command line
  const char* help = nullptr;  // of the flag; null where the flag takes a word
  // Whether it is asked for everywhere; null for bias_correction, which has degrees.
  bool ImproveOptions::* option = nullptr;
  // A layer's own word, by its name in plans; null: all layers or none.
  const char* field_name = nullptr;
  std::optional<bool> LayerOptions::* field = nullptr;
  bool (*serves)(Scheme) = nullptr;                 // layers of the scheme
  bool (*recommended)(Scheme, DataType) = nullptr;  // for layers of the scheme with such activations; null: never
  const char* word = nullptr;                       // of the option in JSON, instead of true: how it is done
  Model (*rewrite)(const Model&, const SampleRun&, const RewriteOptions&) = nullptr;  // of kModel
  void (*improve)(internal::Improving&) = nullptr;                                    // of the other kinds

  bool asked(const ImproveOptions& options) const;
  bool asked(const LayerOptions& fields) const { return field && (fields.*field).value_or(false); }
};
// In the order in which they work.
std::span<const Improver> improvers();
// Whether any layer's own word asks for one of the kind.
bool asks(const LayerOptions& fields, ImproverKind kind);
bool asks(const Plan& plan, ImproverKind kind);
// As in "center, equalize or smooth_quant".
std::string field_names(ImproverKind kind);

// The recommended ones for layers of this scheme. Centering and equalization serve activations of 8 bits alone: with 16
// bits all channels fit one scale anyway.
ImproveOptions recommended_improvers(Scheme scheme = Scheme::kInt8, DataType activation_type = DataType::kInt8);
// The same with ImproveOptions::max_rounding_inputs: what a command does that nobody told what to do.
ImproveOptions default_improvers(Scheme scheme = Scheme::kInt8, DataType activation_type = DataType::kInt8);
// Those that were named one by one, and the usual ones beside them.
ImproveOptions joined(ImproveOptions named, const ImproveOptions& usual);
// Of a layer that is worth it unasked: 3 x 3 x 256, ten seconds a layer.
inline constexpr int64_t kWidestUnasked = 2304;
// QuantizeOptions::headroom_16_bits beside them, unify_concat and float_unlike_concat.
inline constexpr double kRecommendedHeadroom16Bits = 2;
// The fields that differ from the defaults; "{}" when none does.
std::string improve_options_to_json(const ImproveOptions& options);
ImproveOptions improve_options_from_json(const std::string& text);  // throws Error{kInvalidInput}

// The equal model that is calibrated and quantized. `scheme`: kInt8 or kInt8Dynamic. Layers that smoothing adds
// (smoothing_layers) are appended to options.exclude. What stands between an encoder and its decoder stays as it is. A
// rewriting after which a sample is answered otherwise, by more than 1e-4 of the answer's squares, is left out, and the
// log warns. Models that choose by comparing (NonMaxSuppression), or draw, are not compared.
Model rewrite_for(const Model& model, const ImproveOptions& improvers, QuantizeOptions& options, Scheme scheme,
                  const SampleRun& on);
// For the layers of `plan` whose activations are quantized, as their fields or else `improvers` say.
Model rewrite_for(const Model& model, const ImproveOptions& improvers, QuantizeOptions& options, const Plan& plan,
                  const SampleRun& on);
// The rewritings that a layer of this scheme gets: its fields' word, or else that of `improvers`.
ImproveOptions rewriting_of(const DetailedScheme& scheme, const ImproveOptions& improvers);

// By the scheme, with its fields, whose layers they are for: codes belong to the scales that they were found under.
using SchemeCorrections = std::map<DetailedScheme, Corrections>;

// As an .npz: <scheme as one word>/codes:<layer>, scale:<layer>, bias:<layer>, shifts:<layer> ...; what is read back
// equals what was written. load throws Error{kInvalidInput} for files that hold something else.
void save_corrections(const SchemeCorrections& corrections, const std::filesystem::path& path);
SchemeCorrections load_corrections(const std::filesystem::path& path);

struct Improved {
  Ranges ranges;
  Corrections corrections;
};
// For the layers of the candidate's plan, with its fields. A layer gets a learned rounding or a corrected bias where
// its field or else `improvers` says so; biases fast where only fields ask. Ranges may be empty where the plan has no
// static layers; they serve all of them, so LayerOptions::method is to be resolved before and taken out (ranges_under).
// `enough` ends the learning of roundings early (RoundingOptions).
Improved improve(const Candidate& candidate, const ImproveOptions& improvers, const SampleRun& on,
                 const std::function<bool()>& enough = {});
// Those alone that the plan's fields, or else `otherwise`, ask for. Shifts that were found beside a learned rounding
// are those that it leaves, so a layer that takes them without it is corrected by little.
Corrections wanted(Corrections found, const Plan& plan, const ImproveOptions& otherwise);
// For each layer of the plan what was found for its scheme and fields, unless these refuse it.
Corrections wanted(const SchemeCorrections& corrections, const Plan& plan);
// The plan with the fields that make improve() find such corrections for its layers.
Plan with_fields(const SchemeCorrections& corrections, Plan plan);

}  // namespace seqto
