#include "seqto/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/machine.h"
#include "metrics/device_arithmetic.h"
#include "metrics/integer_layers.h"
#include "metrics/loss/output_values.h"
#include "model/sort_nodes.h"
#include "seqto/error.h"
#include "seqto/explain.h"
#include "seqto/prepare.h"
#include "seqto/task.h"

namespace seqto {
namespace {

using internal::IntegerLayer;
using Values = std::unordered_map<std::string, Tensor>;

// The model with layers taken out: their outputs are inputs, what they read are outputs. None is both, which not every
// version of the runtime takes. No outputs are left of a model that is one layer of codes.
Model cut(const Model& model, std::span<const IntegerLayer* const> layers) {
  std::unordered_set<std::string> given, wanted;
  Model result = model;
  for (const IntegerLayer* layer : layers) {
    given.insert(layer->output);
    result.graph.inputs.push_back({layer->output, layer->output_type, {}, {}});
  }
  std::erase_if(result.graph.outputs, [&](const ValueInfo& output) { return given.contains(output.name); });
  for (const ValueInfo& input : model.graph.inputs) given.insert(input.name);
  for (const ValueInfo& output : result.graph.outputs) wanted.insert(output.name);
  for (const IntegerLayer* layer : layers)
    if (!given.contains(layer->input) && wanted.insert(layer->input).second)
      result.graph.outputs.push_back({layer->input, layer->input_type, {}, {}});
  internal::keep_ancestors(result.graph, std::vector(wanted.begin(), wanted.end()), given);
  result.graph.value_info.clear();
  internal::drop_unused_initializers(result.graph);
  return result;
}

// The model that shows what the layers read and write as well.
Model shown(const Model& model, std::span<const IntegerLayer* const> layers) {
  Model result = model;
  std::unordered_set<std::string> known;
  for (const auto* list : {&model.graph.inputs, &model.graph.outputs})
    for (const ValueInfo& v : *list) known.insert(v.name);
  for (const IntegerLayer* layer : layers) {
    if (known.insert(layer->input).second) result.graph.outputs.push_back({layer->input, layer->input_type, {}, {}});
    if (known.insert(layer->output).second) result.graph.outputs.push_back({layer->output, layer->output_type, {}, {}});
  }
  return result;
}

// How many of the layers lie one behind the other before each.
std::vector<size_t> levels_of(const Model& model, std::span<const IntegerLayer* const> layers) {
  std::unordered_map<std::string, size_t> levels;
  std::unordered_map<std::string, size_t> by_output;
  for (size_t i = 0; i < layers.size(); ++i) by_output[layers[i]->output] = i;
  std::vector<size_t> result(layers.size());
  for (const Node& node : model.graph.nodes) {
    size_t level = 0;
    for (const std::string& input : node.inputs) level = std::max(level, levels[input]);
    for (const std::string& output : node.outputs) {
      levels[output] = level;
      if (const auto layer = by_output.find(output); layer != by_output.end()) {
        result[layer->second] = levels[layers[layer->second]->input];
        levels[output] = result[layer->second] + 1;
      }
    }
  }
  return result;
}

bool same(const Tensor& a, const Tensor& b) { return a.type() == b.type() && std::ranges::equal(a.bytes(), b.bytes()); }

// Values that are equal; of floats those that differ by rounding alone.
int64_t count_equal(const Tensor& a, const Tensor& b) {
  int64_t equal = 0;
  if (a.type() != DataType::kFloat) {
    for (size_t i = 0; i < a.bytes().size(); ++i) equal += a.bytes()[i] == b.bytes()[i];
    return equal;
  }
  const auto x = a.values<float>(), y = b.values<float>();
  float largest = 0;
  for (const float value : y) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < x.size(); ++i) equal += std::abs(x[i] - y[i]) <= 1e-6f * largest;
  return equal;
}

class Auditor {
 public:
  Auditor(const Model& model, Runner& runner) : layers_(internal::integer_layers(model)) {
    for (IntegerLayer& layer : layers_)
      if (layer.audited.can_saturate()) risky_.push_back(&layer);
    levels_ = levels_of(model, risky_);
    plain_ = runner.load(model);
    if (!risky_.empty()) {
      whole_ = runner.load(shown(model, risky_));
      if (const Model rest = cut(model, risky_); !rest.graph.outputs.empty()) cut_ = runner.load(rest);
    }
    for (const ValueInfo& output : model.graph.outputs) outputs_.push_back(output.name);
    equal_.resize(risky_.size());
    compared_.resize(risky_.size());
  }

  void add(const Sample& sample) {
    // By itself: outputs in the middle can keep the runtime from its own rewriting.
    const std::vector<Tensor> plain = answers(run(*plain_, sample, {}), {});
    internal::append_outputs(runtime, plain, "[audit]", sample.counted);
    if (risky_.empty()) {
      internal::append_outputs(exact, plain, "[audit]", sample.counted);
      internal::append_outputs(saturating, plain, "[audit]", sample.counted);
      return;
    }
    const Values here = run(*whole_, sample, {});
    internal::append_outputs(exact, emulate(sample, here, false), "[audit]", sample.counted);
    internal::append_outputs(saturating, emulate(sample, here, true), "[audit]", sample.counted);
  }

  Session& session() { return *plain_; }  // of the model, as the runtime has it

  std::vector<AuditedLayer> layers() const {
    std::vector<AuditedLayer> audited;
    for (const IntegerLayer& layer : layers_) audited.push_back(layer.audited);
    for (size_t i = 0; i < risky_.size(); ++i)
      for (AuditedLayer& layer : audited)
        if (layer.name == risky_[i]->audited.name && compared_[i] > 0)
          layer.equal_to_runtime = static_cast<double>(equal_[i]) / static_cast<double>(compared_[i]);
    return audited;
  }

  Outputs runtime, exact, saturating;

 private:
  // By name; `given`: what layers that were taken out give.
  static Values run(Session& session, const Sample& sample, const Values& given) {
    std::vector<Tensor> inputs;
    for (const std::string& name : session.input_names()) {
      const auto found = given.find(name);
      inputs.push_back(found != given.end() ? found->second : sample.inputs.at(inputs.size()));
    }
    std::vector<Tensor> outputs = session.run(inputs);
    Values values;
    for (size_t i = 0; i < outputs.size(); ++i) values[session.output_names()[i]] = std::move(outputs[i]);
    return values;
  }

  Values run_rest(const Sample& sample, const Values& given) const {
    return cut_ ? run(*cut_, sample, given) : Values();
  }

  std::vector<Tensor> answers(const Values& values, const Values& given) const {
    std::vector<Tensor> result;
    for (const std::string& name : outputs_) {
      const auto found = given.find(name);
      result.push_back(found != given.end() ? found->second : values.at(name));
    }
    return result;
  }

  // The model's outputs. `here`: the runtime's values, which hold as long as no layer gave another.
  std::vector<Tensor> emulate(const Sample& sample, const Values& here, bool saturate) {
    Values given;
    for (const IntegerLayer* layer : risky_) given[layer->output] = here.at(layer->output);
    bool differs = false;
    const size_t last = levels_.empty() ? 0 : *std::ranges::max_element(levels_) + 1;
    for (size_t level = 0; level < last; ++level) {
      const Values now = differs ? run_rest(sample, given) : Values();
      for (size_t i = 0; i < risky_.size(); ++i)
        if (levels_[i] == level) differs |= emulate_layer(i, now, here, given, saturate);
    }
    return answers(differs ? run_rest(sample, given) : here, given);
  }

  // True where the layer gives other values than the runtime's.
  bool emulate_layer(size_t i, const Values& now, const Values& here, Values& given, bool saturate) {
    IntegerLayer& layer = *risky_[i];
    const Tensor& known = here.at(layer.input);
    const auto given_input = std::as_const(given).find(layer.input), found = now.find(layer.input);
    const Tensor input = given_input != given.end() ? given_input->second : found != now.end() ? found->second : known;
    internal::LayerResult result = internal::compute(layer, input, saturate);
    const Tensor& expected = here.at(layer.output);
    if (!saturate && same(input, known)) {
      equal_[i] += count_equal(result.output, expected);
      compared_[i] += result.outputs;
    }
    if (saturate) {
      layer.audited.pairs += result.pairs;
      layer.audited.saturated_pairs += result.saturated_pairs;
      layer.audited.outputs += result.outputs;
      layer.audited.saturated_outputs += result.saturated_outputs;
    }
    const bool differs = !same(result.output, expected);
    given[layer.output] = std::move(result.output);
    return differs;
  }

  std::vector<IntegerLayer> layers_;
  std::vector<IntegerLayer*> risky_;
  std::vector<size_t> levels_;
  std::unique_ptr<Session> plain_, whole_, cut_;
  std::vector<std::string> outputs_;
  std::vector<int64_t> equal_, compared_;  // of values, in the exact model
};

// The same for a device with arithmetic of its own.
class DeviceAuditor {
 public:
  DeviceAuditor(const Model& model, Runner& runner, const Arithmetic& arithmetic)
      : plain_(runner.load(model)),
        device_(model, runner, arithmetic),
        can_saturate_(std::ranges::any_of(device_.layers(), &AuditedLayer::can_saturate)) {}

  void add(const Sample& sample) {
    internal::append_outputs(runtime, run_sample(*plain_, sample), "[audit]", sample.counted);
    const std::vector<Tensor> cut = device_.run(sample.inputs);
    internal::append_outputs(saturating, cut, "[audit]", sample.counted);
    internal::append_outputs(exact, can_saturate_ ? device_.run_wide(sample.inputs) : cut, "[audit]", sample.counted);
  }

  Session& session() { return *plain_; }
  std::vector<AuditedLayer> layers() const { return device_.layers(); }

  Outputs runtime, exact, saturating;

 private:
  std::unique_ptr<Session> plain_;
  internal::DeviceArithmetic device_;
  bool can_saturate_;  // without it wide sums are those of the device
};

Plan plan_of(const Model& model) {
  Plan plan;
  for (const LayerReport& layer : explain(model))
    if (layer.scheme != "float32") plan.schemes[layer.name] = parse_scheme(layer.scheme);
  return plan;
}

}  // namespace

namespace {

// What a model is for is told by its operators, not by pairs between them: of one that has no twin by what is there.
Model float_twin(const Model& model) {
  try {
    return dequantize(model).model;
  } catch (const Error&) {
    return model;
  }
}

// Of the first sample's answer.
Reading reading_of(const Model& model, Session& session, const SampleRun& on, const std::filesystem::path& file) {
  const Sample sample = on.data.read(on.samples.front());
  Outputs first;
  internal::append_outputs(first, run_sample(session, sample), "[audit]", sample.counted);
  return find_reading({}, float_twin(model), {.outputs = first, .sample = sample, .model = file});
}

// No rows in the form that answers so read have.
Outputs no_rows_of(const Reading& reading) {
  Outputs form = reading.outputs();
  form.pooling = Pooling::kNone;
  return form;
}

}  // namespace

Outputs outputs_like(const Outputs& reference, Session& session, const SampleRun& on) {
  Outputs outputs = reference.without_rows();
  for (const int64_t index : on.samples) {
    on.env.stop_if_cancelled("audit");
    const Sample sample = on.data.read(index);
    internal::append_outputs(outputs, run_sample(session, sample), "[audit] of the reference", sample.counted);
  }
  return outputs;
}

Outputs reference_outputs(const Model& model, const SampleRun& on, const std::filesystem::path& file) {
  if (on.samples.empty()) return {};
  const auto session = on.runner.load(model);
  return outputs_like(no_rows_of(reading_of(model, *session, on, file)), *session, on);
}

namespace {

template <class AuditorOf>
Audit audit_by(AuditorOf auditor, const Model& model, const SampleRun& on, const Outputs& reference,
               const AuditOptions& options) {
  const auto& [data, samples, runner, env] = on;
  std::optional<Reading> reading;
  if (!samples.empty()) reading = reading_of(model, auditor.session(), on, options.file);
  const Outputs form = reference.rows > 0 ? reference.without_rows() : reading ? no_rows_of(*reading) : Outputs();
  auditor.runtime = auditor.exact = auditor.saturating = form;
  const bool labelled = data.has_labels() && reading && reading->gives_classes();
  std::vector<int64_t> labels;
  std::vector<Origin> origins;
  int64_t done = 0;
  for (const int64_t index : samples) {
    env.stop_if_cancelled("audit");
    const Sample sample = data.read(index);
    auditor.add(sample);
    if (labelled) labels.push_back(sample.label);
    origins.push_back({sample.source, sample.position});
    env.progress({"audit", ++done, static_cast<int64_t>(samples.size()), ""});
  }
  Audit result;
  result.runner = runner.description();
  result.machine = processor_name();
  result.samples = done;
  result.random_inputs = data.is_random();
  const Outputs& compared = reference.rows > 0 ? reference : auditor.runtime;
  if (reading) result.loss = reading->task->loss;
  for (Measurement* of : {&result.runtime, &result.exact, &result.saturating}) of->blocks = blocks_of(origins);
  measure_outputs(result.runtime, compared, auditor.runtime, labels);
  measure_outputs(result.exact, compared, auditor.exact, labels);
  measure_outputs(result.saturating, compared, auditor.saturating, labels);
  result.layers = auditor.layers();
  result.proposal = options.plan ? *options.plan : plan_of(model);
  for (const AuditedLayer& layer : result.layers) {
    const double needed = options.min_saturated * static_cast<double>(layer.outputs);
    if (layer.saturated_outputs == 0 || static_cast<double>(layer.saturated_outputs) < needed) continue;
    result.proposed.push_back(layer.name);
    result.proposal.schemes.try_emplace(layer.name, Scheme::kInt8);
    result.proposal.options[layer.name].reduce_range = true;
  }
  return result;
}

}  // namespace

Audit audit(const Model& given, const SampleRun& on, const Outputs& reference, const AuditOptions& options) {
  Model model = given;
  sort_nodes(model);
  if (!options.arithmetic || options.arithmetic->pairs_saturate)
    return audit_by(Auditor(model, on.runner), model, on, reference, options);
  return audit_by(DeviceAuditor(model, on.runner, *options.arithmetic), model, on, reference, options);
}

}  // namespace seqto
