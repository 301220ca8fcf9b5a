#include "orchestrator/cached/cached_decoder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/statistics.h"
#include "data/convert.h"
#include "quantization/read/twins.h"
#include "runner/text/pair_runs.h"
#include "seqto/error.h"
#include "seqto/improve.h"
#include "seqto/metrics.h"

namespace seqto::internal {
namespace {

[[noreturn]] void fail(const std::filesystem::path& file, const std::string& found, const std::string& expected) {
  throw Error(Code::kInvalidInput, fmt::format("[tune] {}: {} found; {}", file.string(), found, expected));
}

std::vector<int64_t> all_of(const Dataset& data) {
  std::vector<int64_t> samples(static_cast<size_t>(data.size()));
  std::iota(samples.begin(), samples.end(), int64_t{0});
  return samples;
}

// --- quantizing

// Outputs differ by no more than the order of sums makes them.
bool alike(std::span<const Tensor> a, std::span<const Tensor> b) {
  constexpr float kRounding = 1e-3f;  // of the largest value
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].dims() != b[i].dims() || a[i].type() != b[i].type()) return false;
    if (!a[i].is_float()) continue;
    const Tensor left = convert(a[i], DataType::kFloat, "an output"),
                 right = convert(b[i], DataType::kFloat, "another");
    const auto x = left.values<float>(), y = right.values<float>();
    float largest = 0, difference = 0;
    for (size_t k = 0; k < x.size(); ++k) {
      largest = std::max(largest, std::abs(x[k]));
      difference = std::max(difference, std::abs(x[k] - y[k]));
    }
    if (!(difference <= kRounding * largest)) return false;
  }
  return true;
}

std::vector<Tensor> answers(const Model& model, const std::vector<Tensor>& inputs, Runner& runner) {
  return runner.load(model)->run(inputs);
}

// A decoder with a cache, in the form that is quantized.
class Carrying {
 public:
  Carrying(const Model& cached, const std::string& file, const SelectedPair& selected, const PairData& data)
      : s_(selected), d_(data), file_(file) {
    form_ = tunable_form(cached, s_.quantize, s_.plan).model;
    inputs_ = form_.graph.free_inputs();
    decoder_ = take_apart(s_.given, s_.pair).second;
    twins_ = twins(form_, decoder_);
  }

  Model quantized(std::vector<std::string>& notes) {
    const SessionOptions how{.threads = 1};  // ranges come of it: the same on any number
    Halves base(s_.base, s_.pair, d_.runner, how);
    const DecoderSteps steps_of_base(steps_context(base), s_.pair);
    QuantizeOptions options = s_.quantize;
    bool as_the_pair = true;
    if (!equal(s_.given, s_.base)) {
      Halves given(s_.given, s_.pair, d_.runner, how);
      const DecoderSteps plain(steps_context(given), s_.pair);
      auto rewritten = carried_rewriting(form_, decoder_, take_apart(s_.base, s_.pair).second, twins_);
      as_the_pair = rewritten && alike(answers(form_, plain.read(0).inputs, d_.runner),
                                       answers(*rewritten, steps_of_base.read(0).inputs, d_.runner));
      if (as_the_pair) form_ = *std::move(rewritten);
      else notes.push_back(fmt::format("{}: the pair's smoothing and its codes do not fit, and are left out", file_));
    }
    const Plan plan = carried_plan(s_.plan, twins_, form_, decoder_);
    options.include.clear();
    options.exclude = smoothing_layers(form_);
    std::map<std::string, Ranges> ranges = calibrated(plan, steps_of_base);
    Quantizer quantizer(form_, std::move(ranges[""]), options);
    for (auto& [method, of_method] : ranges)
      if (!method.empty()) quantizer.add_ranges(method, std::move(of_method));
    std::vector<Corrections> corrections;
    for (const Corrections& found : s_.corrections)
      if (as_the_pair) corrections.push_back(carried_corrections(found, twins_));
    return quantizer.quantize(plan, corrections);
  }

 private:
  DecoderSteps::Context steps_context(Halves& halves) const {
    return {d_.data, d_.calibration, s_.given, d_.options, inputs_, halves};
  }

  // By the methods that static layers name.
  std::map<std::string, Ranges> calibrated(const Plan& plan, const DecoderSteps& steps) const {
    std::map<std::string, Ranges> result;
    const std::vector<int64_t> samples = all_of(steps);
    for (const auto& [layer, scheme] : plan.schemes) {
      if (!is_static(scheme)) continue;
      const auto fields = plan.options.find(layer);
      const std::string method =
          fields == plan.options.end() ? std::string() : fields->second.method.value_or(std::string());
      for (const std::string& name : {std::string(), method})
        if (!result.contains(name) && s_.calibrate.contains(name))
          result[name] = calibrate(form_, {steps, samples, d_.runner, d_.env}, s_.calibrate.at(name));
    }
    return result;
  }

  const SelectedPair& s_;
  const PairData& d_;
  const std::string& file_;
  Model form_, decoder_;
  std::vector<ValueInfo> inputs_;
  Twins twins_;
};

// What the pair's decoder reads and gives, the merged one does, too.
void require_both_branches(const CachedDecoder& decoder, const Pair& pair) {
  const std::vector<ValueInfo> inputs = decoder.whole.graph.free_inputs();
  const auto lacks = [](const std::vector<ValueInfo>& values) {
    return [&](const auto& name) { return std::ranges::count(values, name.second, &ValueInfo::name) == 0; };
  };
  const std::vector<ValueInfo>& outputs = decoder.whole.graph.outputs;
  if (std::ranges::any_of(pair.decoder.inputs, lacks(inputs)) || outputs.size() != pair.decoder.outputs.size() ||
      std::ranges::any_of(pair.decoder.outputs, lacks(outputs)))
    fail(decoder.file, fmt::format("other inputs or outputs than {}.onnx has", pair.decoder.file),
         "both forms of one decoder expected, merged by the exporter");
}

// The decoder without a cache, its outputs in the merged file's order.
Model branch_of_pair(const CachedDecoder& decoder, const SelectedPair& selected) {
  Model branch = take_apart(selected.selected, selected.pair).second;
  std::vector<ValueInfo> outputs;
  for (const ValueInfo& output : decoder.whole.graph.outputs)
    outputs.push_back(*std::ranges::find(branch.graph.outputs, output.name, &ValueInfo::name));
  branch.graph.outputs = std::move(outputs);
  return branch;
}

// --- measuring

size_t likeliest(const std::vector<float>& scores) {
  return static_cast<size_t>(std::ranges::max_element(scores) - scores.begin());
}

double median_ns(Session& session, const std::vector<Tensor>& inputs) {
  constexpr int kRuns = 15;
  return static_cast<double>(summarize_latency(session.time(inputs, kRuns)).median_ns);
}

// Tokens behind a cache, of the selected files, beside those of the float decoder without one.
std::string measured(const CachedDecoder& decoder, const Model& model, const SelectedPair& s, const PairData& d) {
  Halves in_float(s.given, s.pair, d.runner), selected(s.selected, s.pair, d.runner);
  const std::vector<ValueInfo> inputs = model.graph.free_inputs();
  const DecoderSteps float_steps({d.data, d.evaluation, s.given, d.options, inputs, in_float}, s.pair);
  const DecoderSteps steps({d.data, d.evaluation, s.given, d.options, inputs, selected}, s.pair);
  const auto session = d.runner.load(model), float_session = d.runner.load(decoder.whole);
  int64_t changed = 0, changed_without = 0;
  std::vector<Tensor> now;
  for (int64_t i = 0; i < steps.size(); ++i) {
    d.env.stop_if_cancelled("evaluate");
    const size_t wanted = likeliest(float_steps.scores(float_steps.step(i)));
    const Step step = steps.step(i);
    now = steps.inputs(step);
    changed += likeliest(last_scores(session->run(now), 1, decoder.file.stem().string())) != wanted;
    changed_without += likeliest(steps.scores(step)) != wanted;
  }
  const double ns = median_ns(*session, now), float_ns = median_ns(*float_session, now);
  const auto share = [&](int64_t count) {
    return 100 * static_cast<double>(count) / static_cast<double>(steps.size());
  };
  return fmt::format(
      "{}: {:.1f} x smaller; a token behind the cache takes {:.2f} of float's time ({:.3f} ms); {:.1f} % of {} such "
      "tokens are not float's, {:.1f} % without the cache",
      decoder.file.filename().string(),
      static_cast<double>(serialized_size(decoder.whole)) / static_cast<double>(serialized_size(model)), ns / float_ns,
      ns / 1e6, share(changed), steps.size(), share(changed_without));
}

}  // namespace

CachedDecoder open_cached(const std::filesystem::path& file, const Model& given, const Pair& pair,
                          const QuantizeOptions& quantize) {
  CachedDecoder decoder{file, load_model(file), {}};
  decoder.branches = branches_of(decoder.whole);
  if (decoder.branches) decoder.cache_is_else = reads_a_past(decoder.branches->else_branch);
  const Model& cached = decoder.cached();
  if (!reads_a_past(cached))
    fail(file, "no input past_key_values.*", "a decoder with a cache expected, as decoder_with_past_model.onnx");
  const Model form = tunable_form(cached, quantize).model;
  const Twins found = twins(form, take_apart(given, pair).second);
  if (found.layers.empty() || !found.strangers.empty())
    fail(file,
         fmt::format("layer {}, whose weights {}.onnx does not have,",
                     found.strangers.empty() ? form.graph.nodes.front().name : found.strangers.front(),
                     pair.decoder.file),
         "another file of the same decoder expected, exported with it");
  require_fed(form.graph.free_inputs(), pair, file.filename().string());
  if (decoder.branches) require_both_branches(decoder, pair);
  return decoder;
}

CarriedDecoder carry(const CachedDecoder& decoder, const SelectedPair& selected, const PairData& data) {
  CarriedDecoder result;
  const std::string file = decoder.file.filename().string();
  result.model = Carrying(decoder.cached(), file, selected, data).quantized(result.notes);
  if (decoder.branches) {
    Branches branches{decoder.branches->condition, std::move(result.model), branch_of_pair(decoder, selected)};
    if (decoder.cache_is_else) std::swap(branches.then_branch, branches.else_branch);
    result.model = with_branches(decoder.whole, std::move(branches));
  }
  if (!data.evaluation.empty()) result.notes.push_back(measured(decoder, result.model, selected, data));
  return result;
}

std::vector<Tensor> step_inputs(const CachedDecoder& decoder, const Model& given, const Pair& pair,
                                const PairData& data) {
  Halves halves(given, pair, data.runner);
  const std::vector<ValueInfo> inputs = decoder.whole.graph.free_inputs();
  const DecoderSteps steps({data.data, data.calibration, given, data.options, inputs, halves}, pair);
  return steps.read(DecoderSteps::kSteps - 1).inputs;
}

}  // namespace seqto::internal
