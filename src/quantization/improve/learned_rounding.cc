// Rounding learned layer by layer: what moves between the models, the moments and the codes.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <unordered_set>

#include "base/parallel.h"
#include "model/graph_view.h"
#include "model/op_traits.h"
#include "quantization/arithmetic/arithmetic.h"
#include "quantization/calibration/frontier.h"
#include "quantization/calibration/layer_rows.h"
#include "quantization/improve/coded_layers.h"
#include "quantization/improve/round_weights.h"
#include "seqto/improve.h"

namespace seqto {
namespace {

using namespace internal;
using Eigen::Index;
using Eigen::MatrixXd;

// A layer to learn, with what is collected for it.
struct Task {
  CodedLayer layer;
  std::vector<float> kept;         // its bias, of each output, where no other can take its place; empty: none does
  std::vector<Moments> even, odd;  // one a group; samples in turn
  void begin() {
    const WeightLayout& l = layer.layout;
    even.assign(static_cast<size_t>(l.groups), Moments(l.inputs, l.outputs / l.groups)), odd = even;
  }
  bool is_finite() const {
    const auto finite = [](const Moments& m) { return m.x.allFinite() && m.yy.allFinite(); };
    return std::ranges::all_of(even, finite) && std::ranges::all_of(odd, finite);
  }
  void add(const Tensor& input, const Tensor& output, int64_t sample, int64_t positions) {
    LayerRows rows = layer_rows(*layer.node, layer.original->weight->dims(), input, output,
                                {positions, static_cast<uint64_t>(sample) * 2654435761u});
    for (size_t o = 0; o < kept.size(); ++o) rows.outputs.row(static_cast<Index>(o)).array() -= kept[o];
    const WeightLayout& l = layer.layout;
    auto& halves = sample % 2 ? odd : even;
    Index inputs = l.inputs, outputs = l.outputs / l.groups;
    for (Index g = 0; g < l.groups; ++g)
      halves[static_cast<size_t>(g)].add(rows.inputs.middleRows(g * inputs, inputs),
                                         rows.outputs.middleRows(g * outputs, outputs));
  }
};

MatrixXd group_weights(const Task& task, const std::vector<float>& values, int64_t group) {
  const WeightLayout& l = task.layer.layout;
  int64_t outputs = l.outputs / l.groups;
  MatrixXd weight(outputs, l.inputs);
  for (int64_t o = 0; o < outputs; ++o)
    for (int64_t i = 0; i < l.inputs; ++i)
      weight(o, i) = values[task.layer.original->layout.at(group * outputs + o, i)];
  return weight;
}

Steps group_steps(const CodedLayer& layer, int64_t group) {
  const WeightLayout& l = layer.layout;
  const CodedWeight& w = layer.weight;
  const Index outputs = l.outputs / l.groups;
  Steps steps{MatrixXd(outputs, l.inputs), MatrixXd(outputs, l.inputs), MatrixXd(outputs, l.inputs)};
  for (Index o = 0; o < outputs; ++o)
    for (Index i = 0; i < l.inputs; ++i) {
      const size_t at = w.scale_at(w.code_at(l.at(group * outputs + o, i)));
      const int32_t zero = w.zero_point[w.zero_point.size() == 1 ? 0 : at];
      steps.scale(o, i) = w.scale[at];
      steps.lowest(o, i) = w.lowest - zero, steps.highest(o, i) = w.highest - zero;
    }
  return steps;
}

size_t index_of_least(const std::vector<double>& values) {
  return static_cast<size_t>(std::ranges::min_element(values) - values.begin());
}

// As the samples in turn tell of each other; with a single one, plain rounding.
Trust best_trust(const Task& task, const std::vector<float>& weights) {
  std::vector<double> errors(ridge_candidates().size());
  bool halves = task.even[0].rows > 0 && task.odd[0].rows > 0;
  for (size_t g = 0; halves && g < task.even.size(); ++g)
    add_held_out_errors(
        {group_weights(task, weights, static_cast<int64_t>(g)), task.even[g], task.odd[g], task.layer.has_bias},
        errors);
  auto candidates = trust_candidates(ridge_candidates()[index_of_least(errors)]);
  errors.assign(candidates.size(), 0);
  for (size_t g = 0; halves && g < task.even.size(); ++g) {
    auto group = static_cast<int64_t>(g);
    add_held_out_errors({group_weights(task, weights, group), task.even[g], task.odd[g], task.layer.has_bias},
                        group_steps(task.layer, group), candidates, errors);
  }
  return candidates[index_of_least(errors)];
}

RoundedLayer round_layer(Task& task, Trust trust, const std::vector<float>& weights) {
  const WeightLayout& l = task.layer.layout;
  const CodedWeight& w = task.layer.weight;
  RoundedLayer result;
  std::vector<int32_t> codes = w.unpacked();  // what is no weight stays
  int64_t outputs = l.outputs / l.groups;
  for (int64_t g = 0; g < l.groups; ++g) {
    Moments& moments = task.even[static_cast<size_t>(g)];
    moments += task.odd[static_cast<size_t>(g)];
    const Steps steps = group_steps(task.layer, g);
    Rounded r = round_weights(group_weights(task, weights, g), moments, steps, trust, task.layer.has_bias);
    for (int64_t o = 0; o < outputs; ++o)
      for (int64_t i = 0; i < l.inputs; ++i)
        codes[w.code_at(l.at(g * outputs + o, i))] =
            static_cast<int32_t>(r.codes(o, i) - steps.lowest(o, i)) + w.lowest;
    for (double b : r.bias) result.bias.push_back(static_cast<float>(b));
    result.error_nearest += r.error_nearest;
    result.error_learned += r.error_learned;
  }
  if (!task.layer.has_bias) result.bias.clear();
  result.codes = w.packed(codes);
  result.scale = w.scale;
  result.zero_point = w.zero_point;
  return result;
}

class Learner {
 public:
  Learner(const Remade& remade, const SampleRun& on, const RoundingOptions& options)
      : float_model_(remade.quantizer.model()),
        floats_(float_model_),
        remade_(remade),
        quantized_(remade.with({})),
        data_(on.data),
        samples_(on.samples.first(std::min(on.samples.size(), static_cast<size_t>(options.max_samples)))),
        options_(options),
        env_(on.env),
        original_(on.runner, samples_.size()),
        coded_(on.runner, samples_.size()) {}

  Rounding run() {
    // Of a copy: quantized_ changes while the layers are learned.
    const Model before = quantized_;
    Encoding encoding = *remade_.quantizer.encoding();
    EncodedLayers layers(encoding, float_model_, floats_);
    std::map<int, std::vector<Task>> levels;
    for (CodedLayer& layer : coded_layers(before, layers))
      if (auto task = make_task(std::move(layer))) levels[task->layer.depth].push_back(std::move(*task));
    for (const auto& [depth, tasks] : levels)
      for (const Task& t : tasks)
        open_originals_.insert(t.layer.original->node->name), open_coded_.insert(t.layer.node->name);
    Rounding result;
    int64_t done = 0;
    for (auto& [depth, tasks] : levels) {
      if (options_.enough && options_.enough()) break;
      env_.progress({"round", done++, static_cast<int64_t>(levels.size()), ""});
      collect(tasks);
      for (Task& task : tasks) learn(task, result);
      quantized_ = remade_.with({.rounding = result});
      for (const Task& t : tasks)
        open_originals_.erase(t.layer.original->node->name), open_coded_.erase(t.layer.node->name);
      tasks.clear();
    }
    env_.progress({"round", done, done, ""});
    return result;
  }

 private:
  std::optional<Task> make_task(CodedLayer layer) const {
    if (options_.max_inputs > 0 && layer.layout.inputs > options_.max_inputs) return {};
    if (!layer.original) return {};
    Task task{std::move(layer), {}, {}, {}};
    const Node& original = *task.layer.original->node;
    if (const auto bias = bias_input(original); bias && !task.layer.has_bias) {
      const Tensor* values = floats_.constant(original.inputs[*bias]);
      const int64_t outputs = task.layer.layout.outputs;
      const bool is_one = values && values->element_count() == 1;
      if (!values || !(is_one || holds_channels(*values, outputs))) return {};  // computed, or another for each row
      task.kept = to_floats(*values);
      task.kept.resize(static_cast<size_t>(outputs), task.kept[0]);
    }
    return task;
  }

  void collect(std::vector<Task>& tasks) {
    // The data set's own tensors, then those that the quantized model computes of them.
    std::vector<std::string> names, computed, targets;
    for (const ValueInfo& v : quantized_.graph.free_inputs()) names.push_back(v.name);
    for (Task& t : tasks) {
      t.begin();
      targets.push_back(t.layer.original->node->outputs[0]);
      if (std::ranges::find(names, t.layer.input) != names.end()) continue;
      names.push_back(t.layer.input);
      computed.push_back(t.layer.input);
    }
    coded_.advance(quantized_, computed, open_coded_);
    original_.advance(float_model_, targets, open_originals_);
    struct Found {
      std::vector<Tensor> inputs, outputs;  // by `names`, by `tasks`
    };
    // An even and an odd sample at once: the moments of each half are added to in the samples' order.
    for (size_t first = 0; first < samples_.size(); first += 2) {
      env_.stop_if_cancelled("round");
      std::vector<Found> pair;
      for (size_t s = first; s < std::min(first + 2, samples_.size()); ++s) {
        Found found{.inputs = data_.read(samples_[s]).inputs};
        found.outputs = original_.run(s, found.inputs);
        std::ranges::move(coded_.run(s, found.inputs), std::back_inserter(found.inputs));
        pair.push_back(std::move(found));
      }
      in_parts(tasks.size() * pair.size(), 1, [&](size_t begin, size_t end) {
        for (size_t k = begin; k < end; ++k) {
          Task& task = tasks[k / pair.size()];
          const size_t half = k % pair.size();
          const auto input = static_cast<size_t>(std::ranges::find(names, task.layer.input) - names.begin());
          task.add(pair[half].inputs[input], pair[half].outputs[k / pair.size()], static_cast<int64_t>(first + half),
                   positions(task.layer.layout));
        }
      });
    }
  }

  int64_t positions(const WeightLayout& layout) const {
    int64_t rows = wanted_rows(layout, options_), samples = std::max<int64_t>(1, std::ssize(samples_));
    return std::max(kPositions, (rows + samples - 1) / samples);
  }

  void learn(Task& task, Rounding& result) {
    env_.stop_if_cancelled("round");
    if (!task.is_finite()) {
      env_.log(LogLevel::kWarning,
               fmt::format("what {} reads or gives on the samples holds NaN or infinity: its weights "
                           "are rounded to the nearest codes",
                           task.layer.node->name));
      return;
    }
    std::vector<float> weights = to_floats(*task.layer.original->weight);
    Trust trust = best_trust(task, weights);
    RoundedLayer rounded = round_layer(task, trust, weights);
    env_.log(
        LogLevel::kDebug,
        fmt::format("rounding of {}: squared error {:.4g} instead of {:.4g}, ridge {}, damping {}",
                    task.layer.node->name, rounded.error_learned, rounded.error_nearest, trust.ridge, trust.damping));
    result[task.layer.node->name] = std::move(rounded);
  }

  const Model& float_model_;
  GraphView floats_;
  const Remade& remade_;
  Model quantized_;  // with what was learned so far
  const Dataset& data_;
  std::span<const int64_t> samples_;
  RoundingOptions options_;
  const Env& env_;
  Frontier original_, coded_;                                // the two models up to the layers that are learned next
  std::unordered_set<LayerId> open_originals_, open_coded_;  // not learned yet
};

}  // namespace

Rounding learn_rounding(const Remade& quantized, const SampleRun& on, const RoundingOptions& options) {
  return Learner(quantized, on, options).run();
}

}  // namespace seqto
