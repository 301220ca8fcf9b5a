// What float16 would cost, from the float32 model and samples alone.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <unordered_map>

#include "metrics/loss/loss_fields.h"
#include "metrics/loss/output_values.h"
#include "metrics/node_by_node.h"
#include "model/op_traits.h"
#include "seqto/error.h"
#include "seqto/explain.h"
#include "seqto/prepare.h"
#include "seqto/quantize.h"
#include "seqto/task.h"
#include "seqto/validate.h"

namespace seqto {
namespace {

using namespace internal;

constexpr double kLargest = 65504, kSmallest = 0x1p-25;  // float16 holds, and rounds to 0
constexpr double kMask = 1e30;                           // what masks of attention are made of: anything large will do
constexpr double kManySmall = 1e-3;                      // share of values that become 0
constexpr double kCured = 0.1;                           // of the loss is left where small values were its cause

struct Values {
  double largest = 0;
  int64_t count = 0, overflow = 0, underflow = 0;

  bool many_small() const { return static_cast<double>(underflow) > kManySmall * static_cast<double>(count); }

  void add(std::span<const float> values) {
    count += std::ssize(values);
    for (const float value : values) {
      const double magnitude = std::abs(static_cast<double>(value));
      if (magnitude > kMask) continue;
      largest = std::max(largest, magnitude);
      overflow += magnitude > kLargest;
      underflow += magnitude != 0 && magnitude <= kSmallest;
    }
  }
};

// Sums of so many products are an output of the layer; 0: it is no product.
int64_t terms(const Node& node, const std::unordered_map<std::string, const Tensor*>& constants) {
  if (!has(node, kProduct) || node.inputs.size() < 2) return 0;
  const auto weight = constants.find(node.inputs[1]);
  if (weight == constants.end()) return 0;
  const Tensor& w = *weight->second;
  const auto outer = output_axis(node, w.dims().size());
  if (!outer || w.dims()[*outer] == 0) return 0;
  return w.element_count() / w.dims()[*outer];
}

void require_float32(const Model& model) {
  const std::string form = quantized_form(model).form;
  if (form != "float" && form != "float16")
    throw Error(Code::kInvalidInput,
                fmt::format("[audit] --float16, and a quantized model ({}) found; a float32 model expected; `seqto "
                            "prepare MODEL --dequantize -o FLOAT` turns it back",
                            form));
  if (computes_in_float16(model))
    throw Error(Code::kInvalidInput,
                "[audit] --float16, and a model that computes in float16 found; a float32 model expected; `seqto "
                "prepare MODEL --float32 -o FLOAT` makes one");
}

using MeasurePlan = std::function<Measurement(const Plan&)>;

// Takes layers with values that become 0 out of float16, where these cause most of what the answers lose.
class SmallValues {
 public:
  SmallValues(Float16Audit& audit, MeasurePlan measure) : audit_(audit), measure_(std::move(measure)) {}

  void take_out() {
    std::vector<LayerId> layers;
    for (const Float16Layer& layer : audit_.layers)
      if (!layer.underflows.empty() && audit_.proposal.schemes.contains(layer.name)) layers.push_back(layer.name);
    if (layers.empty()) return;
    Plan without = audit_.proposal;
    for (const LayerId& layer : layers) without.schemes.erase(layer);
    Measurement cured = measure_(without);
    if (!(loss(cured) < kCured * loss(audit_.mixed))) return;
    // Twice: other roundings, no small values.
    bound_ = 2 * loss(cured);
    audit_.proposal = std::move(without);
    audit_.mixed = std::move(cured);
    give_back_halves(layers);
  }

 private:
  double loss(const Measurement& measurement) const {
    const auto* field = std::ranges::find(kLossFields, audit_.loss, &LossField::name);
    const double value = measurement.losses.*field->value;
    return std::isnan(value) ? std::numeric_limits<double>::infinity() : value;
  }

  // Those that change nothing return to float16, many at a time.
  void give_back(std::span<const LayerId> layers) {
    Plan with = audit_.proposal;
    for (const LayerId& layer : layers) with.schemes[layer] = Scheme::kFloat16;
    Measurement measured = measure_(with);
    if (loss(measured) <= bound_) {
      audit_.proposal = std::move(with);
      audit_.mixed = std::move(measured);
    } else {
      give_back_halves(layers);
    }
  }

  void give_back_halves(std::span<const LayerId> layers) {
    if (layers.size() < 2) return;
    give_back(layers.first(layers.size() / 2));
    give_back(layers.subspan(layers.size() / 2));
  }

  Float16Audit& audit_;
  MeasurePlan measure_;
  double bound_ = 0;
};

}  // namespace

Float16Audit audit_float16(const Model& given, const SampleRun& on) {
  const auto& [data, samples, runner, env] = on;
  require_float32(given);
  QuantizeOptions options;
  options.float16.compute = true;
  const Model model = tunable_form(given, options).model;
  std::unordered_map<std::string, Values> values;
  std::unordered_map<std::string, const Tensor*> constants;
  const auto add = [&](const std::string& name, const Tensor& tensor) {
    if (tensor.type() == DataType::kFloat) values[name].add(tensor.values<float>());
  };
  for (const Initializer& i : model.graph.initializers) {
    constants[i.name] = &i.tensor;
    add(i.name, i.tensor);
  }
  Float16Audit result;
  NodeByNode steps(model, runner, [&](const Node& node, std::span<const Tensor> made) {
    size_t place = 0;
    for (const std::string& output : node.outputs)
      if (!output.empty()) add(output, made[place++]);
  });
  Outputs reference;
  bool labelled = false;
  std::vector<int64_t> labels;
  std::vector<Origin> origins;
  for (const int64_t index : samples) {
    env.stop_if_cancelled("audit");
    const Sample sample = data.read(index);
    for (size_t i = 0; i < sample.inputs.size(); ++i) add(steps.input_names()[i], sample.inputs[i]);
    const std::vector<Tensor> answer = steps.run(sample.inputs);
    if (reference.rows == 0) {
      Outputs first;
      append_outputs(first, answer, "[audit]", sample.counted);
      const Reading reading = find_reading({}, model, {.outputs = first, .sample = sample});
      labelled = data.has_labels() && reading.gives_classes();
      result.loss = reading.task->loss;
      reference = reading.outputs();
      reference.pooling = Pooling::kNone;
    }
    append_outputs(reference, answer, "[audit]", sample.counted);
    if (labelled) labels.push_back(sample.label);
    origins.push_back({sample.source, sample.position});
    env.progress({"audit", ++result.samples, static_cast<int64_t>(samples.size()), ""});
  }
  result.runner = runner.description();
  result.random_inputs = data.is_random();
  result.proposal = uniform_plan(model, Scheme::kFloat16);
  const Plan all = result.proposal;
  if (values.empty())
    throw Error(Code::kInvalidInput,
                "[audit] --float16, and a model without values in float32 found; a float32 model expected; export it "
                "in float32");
  for (const Node& node : model.graph.nodes) {
    Float16Layer layer{.name = node.name, .op_type = node.op_type};
    Values own;
    for (const auto* names : {&node.outputs, &node.inputs})
      for (const std::string& name : *names) {
        const auto found = values.find(name);
        if (found == values.end()) continue;
        const Values& v = found->second;
        if (v.overflow > 0 && layer.overflows.empty()) layer.overflows = name;
        if (v.many_small() && layer.underflows.empty()) layer.underflows = name;
        if (names == &node.inputs) continue;
        own.largest = std::max(own.largest, v.largest);
        own.count += v.count, own.overflow += v.overflow, own.underflow += v.underflow;
      }
    if (own.count == 0 && layer.overflows.empty() && layer.underflows.empty()) continue;
    layer.largest = own.largest;
    layer.overflow = own.count > 0 ? static_cast<double>(own.overflow) / static_cast<double>(own.count) : 0;
    layer.underflow = own.count > 0 ? static_cast<double>(own.underflow) / static_cast<double>(own.count) : 0;
    // Partial sums grow as a random walk does; each addition rounds by up to half of 2^-10.
    layer.accumulation = 0x1p-11 * std::sqrt(static_cast<double>(terms(node, constants)) / 6);
    if (!layer.overflows.empty()) result.proposal.schemes.erase(node.name);
    result.layers.push_back(std::move(layer));
  }
  const auto measure = [&](const Plan& plan) {
    Measurement measurement;
    Quantizer quantizer(model, {}, options);
    const Model half = infer_shapes(quantizer.quantize(plan));
    NodeByNode rounded(half, runner);
    measurement.blocks = blocks_of(origins);
    measure_outputs(measurement, reference, outputs_like(reference, rounded, on), labels);
    measurement.size_bytes = serialized_size(half);
    return measurement;
  };
  result.all = measure(all);
  result.mixed = measure(result.proposal);
  SmallValues(result, measure).take_out();
  for (const Node& node : model.graph.nodes)
    if (all.schemes.contains(node.name) && !result.proposal.schemes.contains(node.name))
      result.in_float32.push_back(node.name);
  return result;
}

}  // namespace seqto
