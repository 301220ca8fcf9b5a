// Which settings layers of which schemes read, a row each.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "seqto/recipe.h"

namespace seqto {
namespace {

bool statically(Scheme scheme, QuantFormat) { return is_static(scheme); }
bool in_pairs(Scheme scheme, QuantFormat format) { return is_static(scheme) && format == QuantFormat::kQdq; }
bool in_operators(Scheme scheme, QuantFormat format) { return is_static(scheme) && format == QuantFormat::kQoperator; }
bool at_run_time(Scheme scheme, QuantFormat) { return scheme == Scheme::kInt8Dynamic; }
bool by_operator_rules(Scheme scheme, QuantFormat format) {
  return in_operators(scheme, format) || at_run_time(scheme, format);
}
bool on_codes(Scheme scheme, QuantFormat) { return quantizes_activations(scheme); }
bool with_weights_in_codes(Scheme scheme, QuantFormat) {
  return quantizes_activations(scheme) || is_weight_only(scheme);
}
bool in_weights_alone(Scheme scheme, QuantFormat) { return is_weight_only(scheme); }
bool in_4_bits(Scheme scheme, QuantFormat) { return scheme == Scheme::kInt4Weights; }
bool in_halves(Scheme scheme, QuantFormat) { return scheme == Scheme::kFloat16; }

// Options that all layers read have no row: compat_onnxruntime, op_types, include, exclude, widen_float16.
constexpr SchemeSetting kSettings[] = {
    {"activation_type", "--activation-type", statically},
    {"weight_type", "--weight-type", with_weights_in_codes},
    {"per_channel", "--per-channel", with_weights_in_codes},  // of weights alone it is so anyway
    {"per_token", "--per-token", at_run_time},
    {"reduce_range", "--reduce-range", on_codes},
    {"weight_clipping", "--weight-clipping", statically},
    {"symmetric_weights", "--symmetric-weights", with_weights_in_codes},
    {"symmetric_activations", "--symmetric-activations", on_codes},  // dynamic: of constants, as tables of embeddings
    {"restricted_asymmetric_activations", "--restricted-asymmetric-activations", statically},
    {"min_real_range", "--min-real-range", on_codes},  // dynamic: of weights
    {"power_of_two_scales", "--power-of-two-scales", statically},
    {"headroom_16_bits", "--headroom-16-bits", in_pairs},
    {"unify_concat", "--unify-concat", statically},
    {"float_unlike_concat", "--float-unlike-concat", statically},
    {"float_between_products", nullptr, statically},
    {"sums_for_adds", nullptr, on_codes},
    {"add_joins_product", nullptr, in_pairs},
    {"equal_input_op_types", nullptr, statically},
    {"force_quantize_no_input_check", "--force-quantize-no-input-check", on_codes},
    {"keep_removable_activations", "--keep-removable-activations", in_pairs},
    {"add_qdq_pair_to_weight", "--add-qdq-pair-to-weight", in_pairs},
    {"quantize_bias", "--quantize-bias", in_pairs},
    {"adjust_weight_scale_for_bias", "--adjust-weight-scale-for-bias", statically},
    {"exclude_output_op_types", "--exclude-output-op-types", statically},
    {"dedicated_qdq_pair", "--dedicated-qdq-pair", in_pairs},
    {"use_qdq_contrib_ops", "--use-qdq-contrib-ops", in_pairs},
    {"block_size", "--block-size", in_pairs},
    {"op_type_per_channel_axis", "--op-type-per-channel-axis", in_pairs},
    {"tensor_overrides", "--tensor-overrides", statically},  // QOperator form refuses them itself
    {"matmul_const_b_only", "--matmul-const-b-only", by_operator_rules},
    {"enable_subgraph", "--enable-subgraph", by_operator_rules},
    {"nnapi_sigmoid", "--nnapi-sigmoid", in_operators},
    {"format", "--format", statically},
    // Calibration.
    {"method", "--calibration-method", statically},
    {"tensor_methods", "--tensor-method", statically},
    {"exact", "--exact-ranges", statically},
    {"symmetric", "--symmetric-ranges", statically},
    {"percentile", "--percentile", statically},
    {"bins", "--bins", statically},
    {"quantized_bins", "--quantized-bins", statically},
    {"moving_average_constant", "--moving-average-constant", statically},
    {"chunk_samples", "--chunk-samples", statically},
    // Weights that are only stored.
    {"weight_bits", "--weight-bits", in_4_bits},  // 8, which all others have, is no question
    {"weight_only", "--weight-block-size", in_weights_alone},
    {nullptr, "--int4-format", in_4_bits},
    {nullptr, "--accuracy-level", in_4_bits},
    {"float16", "--float16-compute", in_halves},
    {nullptr, "--float16-io", in_halves},
    {nullptr, "--float16-block-ops", in_halves},
    {nullptr, "--float16-max", in_halves},
    {nullptr, "--float16-strict", in_halves},
};

std::set<Scheme> schemes_of(const Recipe& recipe) {
  std::set<Scheme> schemes;
  if (recipe.everywhere) return {*recipe.everywhere};
  // Where the mode dynamic gave each convolution its weights alone, there may be no other layer.
  if (recipe.rewritten_for == Scheme::kInt8Dynamic) schemes.insert(Scheme::kInt8Dynamic);
  for (const auto& [layer, scheme] : recipe.plan.schemes)
    if (scheme != Scheme::kFloat32) schemes.insert(scheme);
  return schemes;
}

}  // namespace

std::span<const SchemeSetting> scheme_settings() { return kSettings; }

std::string why_idle(const Recipe& recipe, const std::function<bool(Scheme, QuantFormat)>& read_by) {
  const QuantFormat format = recipe.quantize.format;
  std::vector<std::string> found, modes;
  for (const Scheme scheme : schemes_of(recipe)) {
    if (read_by(scheme, format)) return "";
    found.emplace_back(to_string(scheme));
    if (is_static(scheme) && format != QuantFormat::kQdq) found.back() += fmt::format(" (form {})", to_string(format));
  }
  if (found.empty()) return "";
  const bool qdq = read_by(Scheme::kInt8, QuantFormat::kQdq),
             qoperator = read_by(Scheme::kInt8, QuantFormat::kQoperator);
  if (qdq) modes.emplace_back(qoperator || format == QuantFormat::kQdq ? "static" : "static in the form qdq");
  else if (qoperator) modes.emplace_back("static in the form qoperator");
  if (read_by(Scheme::kInt8Dynamic, format)) modes.emplace_back("dynamic");
  if (read_by(Scheme::kInt8Weights, format)) modes.emplace_back("weights");
  else if (read_by(Scheme::kInt4Weights, format)) modes.emplace_back("weights with 4 bits");
  if (read_by(Scheme::kFloat16, format)) modes.emplace_back("float16");
  return fmt::format("with layers in {} found, where it does nothing; leave it out, or choose another mode: {}",
                     fmt::join(found, ", "), fmt::join(modes, ", "));
}

bool smooths(const Recipe& recipe) {
  const auto asks = [](const auto& layer) { return layer.second.smooth_quant.value_or(false); };
  return recipe.improvers.smooth || std::ranges::any_of(recipe.plan.options, asks);
}

}  // namespace seqto
