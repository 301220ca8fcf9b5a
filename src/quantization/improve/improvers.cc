// The improvers, a row each, and what goes by the rows: options, rewriting, improving.
#include "seqto/improve.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"
#include "model/op_traits.h"
#include "model/pair.h"
#include "quantization/arithmetic/arithmetic.h"
#include "quantization/improve/coded_layers.h"
#include "quantization/improve/operators_in_pairs.h"
#include "quantization/improve/same_answers.h"
#include "seqto/error.h"

namespace seqto {

using internal::GraphView;
using internal::Improving;
using nlohmann::json;

namespace internal {

// What improvers work on after calibration. Each goes on from what those before it found.
struct Improving {
  Candidate candidate;
  const ImproveOptions& options;
  const SampleRun& on;
  const std::function<bool()>& enough;
  Improved found;

  Candidate now() const { return {candidate.model, found.ranges, candidate.options, candidate.plan}; }
  Quantizer quantizer() const { return {candidate.model, found.ranges, candidate.options}; }
  bool corrects_all() const { return options.bias_correction != BiasCorrection::kNone; }
};

}  // namespace internal

namespace {

bool any_layer(const Plan& plan, const Improver& improver) {
  return std::ranges::any_of(plan.options, [&](const auto& layer) { return improver.asked(layer.second); });
}

bool learns(const Improving& i, const Node& node, const GraphView& view) {
  const auto fields = i.candidate.plan.options.find(node.name);
  const bool asked = i.options.learned_rounding;
  if (!(fields == i.candidate.plan.options.end() ? asked : fields->second.learned_rounding.value_or(asked)))
    return false;
  const Tensor* weight = internal::has(node, internal::kProduct) ? view.constant(node.inputs[1]) : nullptr;
  const auto layout = weight ? internal::weight_layout(node, weight->dims()) : std::nullopt;
  const int64_t most = i.options.max_rounding_inputs;
  return layout && (most == 0 || layout->inputs <= most);
}

void cut(Improving& i) { i.found.ranges = cut_ranges(i.candidate.model, std::move(i.found.ranges)); }

// Of layers whose rounding will not be learned, which makes more of the scales that there are; before those behind them
// learn to make up for their errors.
void search(Improving& i) {
  const GraphView view(i.candidate.model);
  Plan rest = i.candidate.plan;
  for (const Node& node : i.candidate.model.graph.nodes)
    if (rest.schemes.contains(node.name) && learns(i, node, view))
      rest.schemes.erase(node.name), rest.options.erase(node.name);
  if (rest.schemes.empty()) return;
  Quantizer quantizer = i.quantizer();
  i.found.corrections.scales = search_scales({quantizer, rest}, i.on);
}

// Each layer's output comes nearer to the float model's; those of the whole model need not, as where attention reads
// them in few bits. Then the codes stay the nearest ones.
void learn(Improving& i) {
  Quantizer quantizer = i.quantizer();
  Corrections learned = i.found.corrections;
  learned.rounding = learn_rounding({quantizer, i.candidate.plan, {i.found.corrections}}, i.on,
                                    {.max_inputs = i.options.max_rounding_inputs, .enough = i.enough});
  learned = wanted(std::move(learned), i.candidate.plan, i.options);
  if (!learned.rounding.empty()) {
    const internal::SameAnswers same(i.candidate.model, i.on, RefineOptions().max_samples);
    const auto difference = [&](const Corrections& corrections) {
      return same.difference(quantizer.quantize(i.candidate.plan, {corrections}));
    };
    const auto after = difference(learned), before = after ? difference(i.found.corrections) : after;
    if (after > before) {
      i.on.env.log(LogLevel::kInfo,
                   "codes that were learned for the weights came out worse than the nearest ones, which are kept");
      return;
    }
  }
  i.found.corrections = std::move(learned);
}

Corrections with_shifts(const Improving& i, BiasCorrection correction) {
  Corrections found = i.found.corrections;
  Quantizer quantizer = i.quantizer();
  found.shifts = bias_shifts({quantizer, i.candidate.plan, {found}}, correction, i.on);
  return wanted(std::move(found), i.candidate.plan, i.options);
}

void correct(Improving& i) {
  i.found.corrections = with_shifts(i, i.corrects_all() ? i.options.bias_correction : BiasCorrection::kFast);
}

// Of layers that are too wide to learn, of another kind, or that there was no time for.
void correct_the_rest(Improving& i) {
  Corrections& found = i.found.corrections;
  Quantizer quantizer = i.quantizer();
  Corrections rest{.shifts = bias_shifts({quantizer, i.candidate.plan, {found}}, BiasCorrection::kFast, i.on)};
  rest = wanted(std::move(rest), i.candidate.plan, {.bias_correction = BiasCorrection::kFast});
  for (auto& [layer, shift] : rest.shifts)
    if (!found.rounding.contains(layer)) found.shifts.emplace(layer, std::move(shift));
}

void refine(Improving& i) {
  if (i.found.ranges.empty()) return;
  Corrections meanwhile = i.found.corrections;
  // As it will be in the file: a cheap stand-in for the correction that follows.
  if (i.corrects_all() || any_layer(i.candidate.plan, improvers().back()))
    meanwhile = with_shifts(i, BiasCorrection::kFast);
  i.found.ranges = refine_ranges(i.now(), i.on, {.corrections = std::move(meanwhile)});
}

bool serves_codes(Scheme scheme) { return is_static(scheme) || is_weight_only(scheme); }
bool in_8_bits(Scheme scheme, DataType activation_type) {
  return !is_weight_only(scheme) && !internal::is_16_bits(activation_type);
}
bool static_in_8_bits(Scheme scheme, DataType activation_type) {
  return is_static(scheme) && in_8_bits(scheme, activation_type);
}
bool always(Scheme, DataType) { return true; }

constexpr Improver kImprovers[] = {
    {.name = "center",
     .kind = ImproverKind::kModel,
     .flag = "--center",
     .help = "Move the channels of tensors to the middle of their ranges before they are quantized",
     .option = &ImproveOptions::center,
     .field_name = "center",
     .field = &LayerOptions::center,
     .serves = quantizes_activations,
     .recommended = in_8_bits,
     .rewrite = center},
    {.name = "equalize",
     .kind = ImproverKind::kModel,
     .flag = "--equalize",
     .help = "Scale the channels of tensors, before they are quantized, so that rounding loses least",
     .option = &ImproveOptions::equalize,
     .field_name = "equalize",
     .field = &LayerOptions::equalize,
     .serves = quantizes_activations,
     .recommended = in_8_bits,
     .word = "least_noise_in_either_axis",  // another way would not go on with a study of this
     .rewrite = equalize},
    {.name = "smooth",
     .kind = ImproverKind::kModel,
     .flag = "--smooth-quant",
     .help = "Move outlier channels of activations into the weights of MatMul and Gemm; static and dynamic",
     .option = &ImproveOptions::smooth,
     .field_name = "smooth_quant",
     .field = &LayerOptions::smooth_quant,
     .serves = quantizes_activations,
     .rewrite = smooth},
    {.name = "cut_ranges",
     .kind = ImproverKind::kRanges,
     .flag = "--improve",  // no other: it does no harm that somebody would leave it out for
     .option = &ImproveOptions::cut_ranges,
     .serves = is_static,
     .recommended = static_in_8_bits,
     .improve = cut},
    {.name = "scale_search",
     .kind = ImproverKind::kEncoding,
     .flag = "--scale-search",
     .help = "Search the scales of weights alone, where no rounding is learned, by how large their inputs are",
     .option = &ImproveOptions::scale_search,
     .serves = is_weight_only,
     .improve = search},
    {.name = "rounding",
     .kind = ImproverKind::kEncoding,
     .flag = "--rounding learned",
     .option = &ImproveOptions::learned_rounding,
     .field_name = "rounding",
     .field = &LayerOptions::learned_rounding,
     .serves = serves_codes,
     .recommended = always,
     .word = "learned",
     .improve = learn},
    {.name = "refine_ranges",
     .kind = ImproverKind::kRanges,
     .flag = "--refine-ranges",
     .help = "Narrow the ranges of activations where the model's outputs come nearer to the float model's",
     .option = &ImproveOptions::refine_ranges,
     .serves = is_static,
     .improve = refine},
    // Last: it takes up what the others leave.
    {.name = "bias_correction",
     .kind = ImproverKind::kEncoding,
     .flag = "--bias-correction",
     .field_name = "bias_correction",
     .field = &LayerOptions::bias_correction,
     .serves = serves_codes,
     .improve = correct},
};

bool asks_before(const ImproveOptions& options, bool calibration) {
  return std::ranges::any_of(kImprovers, [&](const Improver& i) {
    return (i.kind == ImproverKind::kModel) == calibration && i.asked(options);
  });
}

}  // namespace

std::span<const Improver> improvers() { return kImprovers; }

bool Improver::asked(const ImproveOptions& o) const {
  return option ? o.*option : o.bias_correction != BiasCorrection::kNone;
}

bool ImproveOptions::rewrites() const { return asks_before(*this, true); }
bool ImproveOptions::corrects() const { return asks_before(*this, false); }

bool asks(const LayerOptions& fields, ImproverKind kind) {
  return std::ranges::any_of(kImprovers, [&](const Improver& i) { return i.kind == kind && i.asked(fields); });
}

bool asks(const Plan& plan, ImproverKind kind) {
  return std::ranges::any_of(plan.options, [&](const auto& layer) { return asks(layer.second, kind); });
}

std::string field_names(ImproverKind kind) {
  std::vector<std::string> names;
  for (const Improver& i : kImprovers)
    if (i.kind == kind && i.field) names.emplace_back(i.field_name);
  std::string text = names.back();
  for (size_t n = names.size() - 1; n-- > 0;) text = names[n] + (n + 2 == names.size() ? " or " : ", ") + text;
  return text;
}

// --- options

ImproveOptions recommended_improvers(Scheme scheme, DataType activation_type) {
  ImproveOptions options;
  for (const Improver& i : kImprovers)
    if (i.recommended) options.*i.option = i.recommended(scheme, activation_type);
  return options;
}

ImproveOptions default_improvers(Scheme scheme, DataType activation_type) {
  ImproveOptions options = recommended_improvers(scheme, activation_type);
  options.max_rounding_inputs = kWidestUnasked;
  return options;
}

ImproveOptions joined(ImproveOptions named, const ImproveOptions& usual) {
  for (const Improver& i : kImprovers)
    if (i.option) named.*i.option |= usual.*i.option;
  if (named.max_rounding_inputs == 0) named.max_rounding_inputs = usual.max_rounding_inputs;
  return named;
}

std::string improve_options_to_json(const ImproveOptions& o) {
  const ImproveOptions d;
  json j = json::object();
  for (const Improver& i : kImprovers)
    if (i.option && o.*i.option) j[i.name] = i.word ? json(i.word) : json(true);
  if (o.smooth_alpha != d.smooth_alpha) j["smooth_alpha"] = o.smooth_alpha ? json(*o.smooth_alpha) : json("auto");
  if (o.max_rounding_inputs != d.max_rounding_inputs) j["max_rounding_inputs"] = o.max_rounding_inputs;
  if (o.bias_correction != d.bias_correction) j["bias_correction"] = to_string(o.bias_correction);
  return j.dump();
}

ImproveOptions improve_options_from_json(const std::string& text) {
  ImproveOptions o;
  try {
    const json j = internal::parse_json(text);
    for (const Improver& i : kImprovers)
      if (i.option) o.*i.option = i.word ? j.contains(i.name) : j.value(i.name, false);
    if (const auto it = j.find("smooth_alpha"); it != j.end())
      o.smooth_alpha = it->is_number() ? std::optional(it->get<double>()) : std::nullopt;
    o.max_rounding_inputs = j.value("max_rounding_inputs", o.max_rounding_inputs);
    if (const auto it = j.find("bias_correction"); it != j.end())
      o.bias_correction = parse_bias_correction(it->get_ref<const std::string&>());
  } catch (const json::exception& error) {
    throw Error(Code::kInvalidInput,
                fmt::format("[improve] {}; an object of ImproveOptions' fields was expected", error.what()));
  }
  return o;
}

// --- before calibration

namespace {

struct Rewriting {
  ImproveOptions asked;
  RewriteOptions options;  // but for the readers
  std::function<LayerPredicate(const Improver&)> readers;
  bool any_static = true;  // else outputs stay float
};

// Where an encoder meets its decoder, the tensor stays what it is: each file serves with float's of the other.
std::vector<ValueInfo> outputs_with_links(const Model& model) {
  std::vector<ValueInfo> outputs = model.graph.outputs;
  if (const auto pair = internal::pair_of(model))
    for (const ValueInfo& given : pair->given)
      if (std::ranges::find(outputs, given.name, &ValueInfo::name) == outputs.end()) outputs.push_back(given);
  return outputs;
}

Model rewrite(Model model, Rewriting rewriting, QuantizeOptions& options, const SampleRun& on) {
  const std::vector<ValueInfo> outputs = std::exchange(model.graph.outputs, outputs_with_links(model));
  RewriteOptions& how = rewriting.options;
  how.smooth_alpha = rewriting.asked.smooth_alpha;
  if (rewriting.any_static) how.quantized_ops = options.op_types.empty() ? default_op_types() : options.op_types;
  const Model original = model;
  const internal::SameAnswers same(original, on);
  for (const Improver& i : kImprovers) {
    if (!i.rewrite || !i.asked(rewriting.asked)) continue;
    how.readers = rewriting.readers ? rewriting.readers(i) : nullptr;
    Model rewritten = i.rewrite(model, on, how);
    if (const auto difference = same.difference(rewritten); difference > internal::SameAnswers::kOther) {
      on.env.log(LogLevel::kWarning, fmt::format("{} changes what the float model answers, by {:.2g} of it: left out",
                                                 i.name, *difference));
      continue;
    }
    model = std::move(rewritten);
  }
  model.graph.outputs = outputs;
  if (rewriting.asked.smooth)
    for (LayerId& added : smoothing_layers(model)) options.exclude.push_back(std::move(added));
  return model;
}

}  // namespace

Model rewrite_for(const Model& model, const ImproveOptions& improvers, QuantizeOptions& options, Scheme scheme,
                  const SampleRun& on) {
  return rewrite(model,
                 {.asked = improvers,
                  .options = {.per_channel = options.per_channel},
                  .any_static = scheme != Scheme::kInt8Dynamic},
                 options, on);
}

ImproveOptions rewriting_of(const DetailedScheme& scheme, const ImproveOptions& improvers) {
  ImproveOptions result;
  if (!quantizes_activations(scheme.scheme)) return result;
  for (const Improver& i : kImprovers)
    if (i.rewrite) result.*i.option = (scheme.fields.*i.field).value_or(improvers.*i.option);
  result.smooth_alpha = improvers.smooth_alpha;
  return result;
}

Model rewrite_for(const Model& model, const ImproveOptions& improvers, QuantizeOptions& options, const Plan& plan,
                  const SampleRun& on) {
  Rewriting rewriting{.asked = {.smooth_alpha = improvers.smooth_alpha},
                      .options = {.per_channel = true},
                      .readers =
                          [&](const Improver& i) {
                            return [&](const LayerId& layer) {
                              return i.asked(rewriting_of(detailed_scheme(plan, layer), improvers));
                            };
                          },
                      .any_static = false};
  for (const auto& [layer, scheme] : plan.schemes) {
    const DetailedScheme own = detailed_scheme(plan, layer);
    const ImproveOptions wanted = rewriting_of(own, improvers);
    rewriting.any_static |= is_static(scheme);
    if (!wanted.rewrites()) continue;
    for (const Improver& i : kImprovers)
      if (i.rewrite) rewriting.asked.*i.option |= wanted.*i.option;
    rewriting.options.per_channel &= own.fields.per_channel.value_or(options.per_channel);
  }
  return rewrite(model, std::move(rewriting), options, on);
}

// --- after calibration

Model Remade::with(Corrections more) const {
  std::vector<Corrections> all = found;
  all.push_back(std::move(more));
  return internal::operators_in_pairs(quantizer.quantize(plan, all));
}

Improved improve(const Candidate& candidate, const ImproveOptions& options, const SampleRun& on,
                 const std::function<bool()>& enough) {
  bool cut = false;
  const std::function<bool()> ends = enough ? [&] { return cut = enough(); } : enough;
  Improving improving{
      .candidate = candidate, .options = options, .on = on, .enough = ends, .found = {candidate.ranges, {}}};
  if (on.samples.empty()) return std::move(improving.found);
  for (const Improver& i : kImprovers)
    if (i.improve && (i.asked(options) || any_layer(candidate.plan, i))) i.improve(improving);
  if ((cut || options.max_rounding_inputs > 0) && !improving.corrects_all()) correct_the_rest(improving);
  return std::move(improving.found);
}

}  // namespace seqto
