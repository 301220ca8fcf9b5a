#include "seqto/improve.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"
#include "quantization/arithmetic/arithmetic.h"
#include "seqto/error.h"

namespace seqto {

using nlohmann::json;

ImproveOptions recommended_improvers(Scheme scheme, DataType activation_type) {
  ImproveOptions options;
  options.learned_rounding = true;
  options.center = options.equalize = !is_weight_only(scheme) && !internal::is_16_bits(activation_type);
  return options;
}

std::string improve_options_to_json(const ImproveOptions& o) {
  const ImproveOptions d;
  json j = json::object();
  if (o.center) j["center"] = true;
  if (o.equalize) j["equalize"] = "least_noise_with_writers";  // how: another way would not go on with a study of this
  if (o.smooth) j["smooth"] = true;
  if (o.smooth_alpha != d.smooth_alpha) j["smooth_alpha"] = o.smooth_alpha ? json(*o.smooth_alpha) : json("auto");
  if (o.learned_rounding) j["rounding"] = "learned";
  if (o.max_rounding_inputs != d.max_rounding_inputs) j["max_rounding_inputs"] = o.max_rounding_inputs;
  if (o.refine_ranges) j["refine_ranges"] = true;
  if (o.bias_correction != d.bias_correction) j["bias_correction"] = to_string(o.bias_correction);
  return j.dump();
}

ImproveOptions improve_options_from_json(const std::string& text) {
  ImproveOptions o;
  try {
    const json j = internal::parse_json(text);
    o.center = j.value("center", false);
    o.equalize = j.contains("equalize");
    o.smooth = j.value("smooth", false);
    if (const auto it = j.find("smooth_alpha"); it != j.end())
      o.smooth_alpha = it->is_number() ? std::optional(it->get<double>()) : std::nullopt;
    o.learned_rounding = j.contains("rounding");
    o.max_rounding_inputs = j.value("max_rounding_inputs", o.max_rounding_inputs);
    o.refine_ranges = j.value("refine_ranges", false);
    if (const auto it = j.find("bias_correction"); it != j.end())
      o.bias_correction = parse_bias_correction(it->get_ref<const std::string&>());
  } catch (const json::exception& error) {
    throw Error(Code::kInvalidInput,
                fmt::format("[improve] {}; an object of ImproveOptions' fields was expected", error.what()));
  }
  return o;
}

namespace {

// Which layers each of them is for.
struct Rewriting {
  LayerPredicate centers, equalizes, smooths;
  bool per_channel = false;
  bool any_static = true;  // else outputs stay float
};

Model rewrite(const Model& model, const ImproveOptions& improvers, const Rewriting& asked, QuantizeOptions& options,
              const SampleRun& on) {
  Model result = model;
  if (improvers.center) result = center(result, on, asked.centers);
  if (improvers.equalize) result = equalize(result, on, {.per_channel = asked.per_channel, .readers = asked.equalizes});
  if (!improvers.smooth) return result;
  SmoothOptions smoothing{
      .alpha = improvers.smooth_alpha, .per_channel = asked.per_channel, .quantized_ops = {}, .readers = asked.smooths};
  if (asked.any_static) smoothing.quantized_ops = options.op_types.empty() ? default_op_types() : options.op_types;
  result = smooth(result, on, smoothing);
  for (LayerId& added : smoothing_layers(result)) options.exclude.push_back(std::move(added));
  return result;
}

}  // namespace

Model rewrite_for(const Model& model, const ImproveOptions& improvers, QuantizeOptions& options, Scheme scheme,
                  const SampleRun& on) {
  const Rewriting everywhere{.centers = {},
                             .equalizes = {},
                             .smooths = {},
                             .per_channel = options.per_channel,
                             .any_static = scheme != Scheme::kInt8Dynamic};
  return rewrite(model, improvers, everywhere, options, on);
}

ImproveOptions rewriting_of(const DetailedScheme& scheme, const ImproveOptions& improvers) {
  ImproveOptions result;
  if (!quantizes_activations(scheme.scheme)) return result;
  result.center = scheme.fields.center.value_or(improvers.center);
  result.equalize = scheme.fields.equalize.value_or(improvers.equalize);
  result.smooth = scheme.fields.smooth_quant.value_or(improvers.smooth);
  result.smooth_alpha = improvers.smooth_alpha;
  return result;
}

Model rewrite_for(const Model& model, const ImproveOptions& improvers, QuantizeOptions& options, const Plan& plan,
                  const SampleRun& on) {
  const auto asks = [&](bool ImproveOptions::* rewriting) -> LayerPredicate {
    return [&plan, &improvers, rewriting](const LayerId& layer) {
      return rewriting_of(detailed_scheme(plan, layer), improvers).*rewriting;
    };
  };
  Rewriting asked{.centers = asks(&ImproveOptions::center),
                  .equalizes = asks(&ImproveOptions::equalize),
                  .smooths = asks(&ImproveOptions::smooth),
                  .per_channel = true,
                  .any_static = false};
  ImproveOptions any{.smooth_alpha = improvers.smooth_alpha};
  for (const auto& [layer, scheme] : plan.schemes) {
    const DetailedScheme own = detailed_scheme(plan, layer);
    const ImproveOptions wanted = rewriting_of(own, improvers);
    asked.any_static |= is_static(scheme);
    if (!wanted.rewrites()) continue;
    any.center |= wanted.center;
    any.equalize |= wanted.equalize;
    any.smooth |= wanted.smooth;
    asked.per_channel &= own.fields.per_channel.value_or(options.per_channel);
  }
  return rewrite(model, any, asked, options, on);
}

namespace {

bool asks(const Plan& plan, std::optional<bool> LayerOptions::* field) {
  return std::any_of(plan.options.begin(), plan.options.end(),
                     [&](const auto& layer) { return (layer.second.*field).value_or(false); });
}

// The layers that do not want it are taken out.
template <class T>
void keep_wanted(std::map<LayerId, T>& found, const Plan& plan, std::optional<bool> LayerOptions::* field,
                 bool otherwise) {
  std::erase_if(found, [&](const auto& layer) {
    auto it = plan.options.find(layer.first);
    return !(it == plan.options.end() ? otherwise : (it->second.*field).value_or(otherwise));
  });
}

}  // namespace

Improved improve(const Model& model, Ranges ranges, const QuantizeOptions& options, const Plan& plan,
                 const ImproveOptions& improvers, const SampleRun& on, const std::function<bool()>& enough) {
  Improved result{std::move(ranges), {}};
  bool learns = improvers.learned_rounding || asks(plan, &LayerOptions::learned_rounding);
  bool corrects_all = improvers.bias_correction != BiasCorrection::kNone;
  bool corrects = corrects_all || asks(plan, &LayerOptions::bias_correction);
  if ((!learns && !corrects && !improvers.refine_ranges) || on.samples.empty()) return result;
  // Layers in QOperator form have no inputs in float that could be looked at: what is found for their QDQ form, which
  // rounds in the same places, are codes and biases of both.
  QuantizeOptions in_pairs = options;
  in_pairs.format = QuantFormat::kQdq;
  auto quantized = [&] { return Quantizer(model, result.ranges, in_pairs).quantize(plan); };
  auto shifts = [&](BiasCorrection correction) {
    BiasShifts found = bias_shifts(model, apply(result.corrections, quantized()), correction, on);
    keep_wanted(found, plan, &LayerOptions::bias_correction, corrects_all);
    return found;
  };
  if (learns) {
    Rounding& rounding = result.corrections.rounding;
    const RoundingOptions rounding_options{.max_inputs = improvers.max_rounding_inputs, .enough = enough};
    rounding = learn_rounding(model, quantized(), on, rounding_options);
    keep_wanted(rounding, plan, &LayerOptions::learned_rounding, improvers.learned_rounding);
  }
  if (improvers.refine_ranges && !result.ranges.empty()) {
    Corrections meanwhile = result.corrections;
    // As it will be in the file: a cheap stand-in for the correction that follows.
    if (corrects) meanwhile.shifts = shifts(BiasCorrection::kFast);
    RefineOptions refine;
    refine.corrected = [&](const Model& candidate) { return apply(meanwhile, candidate); };
    result.ranges = refine_ranges(model, result.ranges, in_pairs, plan, on, refine);
  }
  if (corrects) result.corrections.shifts = shifts(corrects_all ? improvers.bias_correction : BiasCorrection::kFast);
  return result;
}

Model apply(const Corrections& corrections, Model quantized) {
  if (!corrections.rounding.empty()) quantized = apply_rounding(quantized, corrections.rounding);
  if (!corrections.shifts.empty()) quantized = shift_biases(quantized, corrections.shifts);
  return quantized;
}

Model apply(const Corrections& corrections, Model quantized, const Plan& plan, const ImproveOptions& otherwise) {
  Corrections wanted = corrections;
  keep_wanted(wanted.rounding, plan, &LayerOptions::learned_rounding, otherwise.learned_rounding);
  keep_wanted(wanted.shifts, plan, &LayerOptions::bias_correction, otherwise.bias_correction != BiasCorrection::kNone);
  return apply(wanted, std::move(quantized));
}

namespace {

// A plan that with_fields() made asks for what was found under the scheme without one or both of these fields.
const Corrections* found_for(const DetailedScheme& asked, const SchemeCorrections& corrections) {
  const bool learned = asked.fields.learned_rounding == true, corrected = asked.fields.bias_correction == true;
  for (auto [without_rounding, without_bias] :
       {std::pair{false, false}, {learned, false}, {false, corrected}, {learned, corrected}}) {
    DetailedScheme scheme = asked;
    if (without_rounding) scheme.fields.learned_rounding.reset();
    if (without_bias) scheme.fields.bias_correction.reset();
    if (auto found = corrections.find(scheme); found != corrections.end()) return &found->second;
  }
  return nullptr;
}

// What was found for the plan's layers, each by its own scheme and fields, but for those whose fields refuse it.
Corrections wanted_by(const Plan& plan, const SchemeCorrections& corrections) {
  Corrections wanted;
  for (const auto& [layer, scheme] : plan.schemes) {
    const Corrections* found = found_for(detailed_scheme(plan, layer), corrections);
    if (!found) continue;
    const auto& [rounding, shifts] = *found;
    if (auto it = rounding.find(layer); it != rounding.end()) wanted.rounding.insert(*it);
    if (auto it = shifts.find(layer); it != shifts.end()) wanted.shifts.insert(*it);
  }
  keep_wanted(wanted.rounding, plan, &LayerOptions::learned_rounding, true);
  keep_wanted(wanted.shifts, plan, &LayerOptions::bias_correction, true);
  return wanted;
}

}  // namespace

Model apply(const SchemeCorrections& corrections, Model quantized, const Plan& plan) {
  return apply(wanted_by(plan, corrections), std::move(quantized));
}

Plan with_fields(const SchemeCorrections& corrections, Plan plan) {
  const Corrections wanted = wanted_by(plan, corrections);
  for (const auto& [layer, rounded] : wanted.rounding) plan.options[layer].learned_rounding = true;
  for (const auto& [layer, shifts] : wanted.shifts) plan.options[layer].bias_correction = true;
  return plan;
}

}  // namespace seqto
