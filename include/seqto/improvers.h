// Room: quantization. All improvers as one set of options, in the order in which they work together.
//
//   model    = rewrite_for(...)        before calibration: center, equalize, smooth
//   ranges   = calibrate(model, ...)
//   improved = improve(...)            once: learned rounding, refined ranges, corrected biases
//   file     = apply(improved.corrections, Quantizer(model, improved.ranges, ...).quantize(plan))
//
// What is found for one plan serves every other plan of the same model too: codes and biases belong to layers of a
// scheme and its fields (SchemeCorrections). docs/accuracy.md tells what each is worth.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "seqto/improve.h"
#include "seqto/refine_ranges.h"
#include "seqto/rounding.h"

namespace seqto {

struct ImproveOptions {
  bool center = false;
  bool equalize = false;
  bool smooth = false;
  std::optional<double> smooth_alpha = 0.5;  // SmoothOptions::alpha
  bool learned_rounding = false;
  int64_t max_rounding_inputs = 0;  // RoundingOptions::max_inputs
  bool refine_ranges = false;
  BiasCorrection bias_correction = BiasCorrection::kNone;  // after the others

  bool rewrites() const { return center || equalize || smooth; }
  bool corrects() const { return learned_rounding || refine_ranges || bias_correction != BiasCorrection::kNone; }
  bool operator==(const ImproveOptions&) const = default;
};
// int8_weights and int4_weights: activations stay exact.
constexpr bool is_weight_only(Scheme scheme) {
  return scheme == Scheme::kInt8Weights || scheme == Scheme::kInt4Weights;
}
// What activations are quantized for can be rewritten.
constexpr bool quantizes_activations(Scheme scheme) { return is_static(scheme) || scheme == Scheme::kInt8Dynamic; }
// The recommended ones for layers of this scheme: centering and equalization serve quantized activations alone, and not
// those of 16 bits, whose channels fit one scale anyway.
ImproveOptions recommended_improvers(Scheme scheme = Scheme::kInt8, DataType activation_type = DataType::kInt8);
// QuantizeOptions::headroom_16_bits beside them, unify_concat and float_unlike_concat.
inline constexpr double kRecommendedHeadroom16Bits = 2;
// The fields that differ from the defaults; "{}" when none does.
std::string improve_options_to_json(const ImproveOptions& options);
ImproveOptions improve_options_from_json(const std::string& text);  // throws Error{kInvalidInput}

// The equal model that is calibrated and quantized. `scheme`: kInt8 or kInt8Dynamic. Layers that smoothing adds
// (smoothing_layers) are appended to options.exclude.
Model rewrite_for(const Model& model, const ImproveOptions& improvers, QuantizeOptions& options, Scheme scheme,
                  const Dataset& data, std::span<const int64_t> samples, Runner& runner, const Env& env = {});
// For the layers of `plan` whose activations are quantized, as their fields or else `improvers` say.
Model rewrite_for(const Model& model, const ImproveOptions& improvers, QuantizeOptions& options, const Plan& plan,
                  const Dataset& data, std::span<const int64_t> samples, Runner& runner, const Env& env = {});
// The rewritings that a layer of this scheme gets: its fields' word, or else that of `improvers`.
ImproveOptions rewriting_of(const DetailedScheme& scheme, const ImproveOptions& improvers);

// What was found out about the layers.
struct Corrections {
  Rounding rounding;
  BiasShifts shifts;  // on top of the rounding's biases

  bool empty() const { return rounding.empty() && shifts.empty(); }
};
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
// For the layers of `plan`, with its fields: a layer gets a learned rounding or a corrected bias where its field or
// else `improvers` says so; biases fast where only fields ask. For QOperator form they are found on the QDQ form, and
// serve both. `ranges` may be empty where the plan has no static
// layers; they serve all of them, so LayerOptions::method is to be resolved before and taken out (ranges_under).
// `enough` ends the learning of roundings early (RoundingOptions).
Improved improve(const Model& model, Ranges ranges, const QuantizeOptions& options, const Plan& plan,
                 const ImproveOptions& improvers, const Dataset& data, std::span<const int64_t> samples, Runner& runner,
                 const Env& env = {}, const std::function<bool()>& enough = {});
// `quantized` with the corrections of those layers that it holds in the form that they were found for.
Model apply(const Corrections& corrections, Model quantized);
// Those alone that the plan's fields, or else `otherwise`, ask for. Shifts that were found beside a learned rounding
// are those that it leaves, so a layer that takes them without it is corrected by little.
Model apply(const Corrections& corrections, Model quantized, const Plan& plan, const ImproveOptions& otherwise);
// Each layer of `plan`, which `quantized` was made of, takes those of its own scheme and fields, unless these refuse
// them.
Model apply(const SchemeCorrections& corrections, Model quantized, const Plan& plan);
// The plan with the fields that make improve() find such corrections for its layers.
Plan with_fields(const SchemeCorrections& corrections, Plan plan);

}  // namespace seqto
