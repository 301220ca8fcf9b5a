#include "orchestrator/tune/forecast.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <unordered_map>

#include "model/graph_view.h"
#include "orchestrator/tune/improvements.h"
#include "quantization/improve/coded_layers.h"

namespace seqto::internal {
namespace {

// Of a run with one thread.
struct Costs {
  double observed = 5;        // times a sample: with every tensor looked at
  double rewriting = 6;       // times that: to center and to equalize
  double evaluations = 5;     // of a search, for each layer
  double search_share = 0.5;  // of a search sample, as racing and shared prefixes leave it
  double candidate = 0.01;    // seconds to make and to load one
  double layer = 0.03;        // seconds to learn the smallest
  double moments = 1e-10;     // seconds for each square of a layer's inputs, times rows
  double codes = 1e-9;        // ... times outputs, and times inputs
  double passes = 3;          // over the samples, to learn a scheme
  double timed_seconds = 12;  // of plans, before and while a search follows latencies
  double finalists = 15;
  double start = 0.5, closing = 2;  // seconds: loading; files, pages and plots
};

// Of a layer whose rounding is learned: weights of one output, outputs, positions of a sample.
struct Width {
  double inputs = 0, outputs = 0, positions = 1;
};

std::vector<Width> widths(const Model& model) {
  const GraphView view(model);
  std::unordered_map<LayerId, std::vector<int64_t>> shapes;
  for (Layer& layer : layers(model)) shapes[layer.id] = std::move(layer.output_shape);
  std::vector<Width> result;
  for (const Node& node : model.graph.nodes) {
    const Tensor* weight = node.inputs.size() > 1 ? view.constant(node.inputs[1]) : nullptr;
    const auto layout = weight ? weight_layout(node, weight->dims()) : std::nullopt;
    if (!layout) continue;
    Width w{.inputs = static_cast<double>(layout->inputs), .outputs = static_cast<double>(layout->outputs)};
    double values = 1;  // of a sample
    for (size_t i = 1; i < shapes[node.name].size(); ++i)
      values *= static_cast<double>(std::max<int64_t>(1, shapes[node.name][i]));
    w.positions = std::max(1.0, values / w.outputs);
    result.push_back(w);
  }
  return result;
}

double learning_seconds(const Model& model, double samples, const Costs& c) {
  double seconds = 0;
  for (const Width& w : widths(model)) {
    if (w.inputs > kWidestUnasked) continue;
    const double rows = std::min(w.positions * samples, std::max(32 * w.inputs, 32768.0));
    seconds += c.layer + w.inputs * w.inputs * (c.moments * rows + c.codes * (w.outputs + w.inputs));
  }
  return seconds;
}

}  // namespace

Forecast forecast(const Inputs& in) {
  constexpr Costs c;
  const TuneOptions& o = in.options;
  const Split& split = in.samples.split;
  const double sample = in.sample_seconds;
  const auto count = [](const std::vector<int64_t>& part) { return static_cast<double>(part.size()); };
  const double calibration = count(split.calibration), search = count(split.search) / 2;
  const double judged = sample * count(split.evaluation);
  Forecast f;
  f.of(Step::kFloat) = c.start + judged + 2 * sample * search;
  f.of(Step::kCalibrate) = sample * calibration * c.observed * (o.improvers.rewrites() ? c.rewriting : 1);
  const auto learned = static_cast<double>(schemes_that_learn(o));
  f.of(Step::kImprove) =
      learned * (learning_seconds(in.model, calibration, c) + c.passes * sample * calibration) + 2 * judged;
  const auto groups = static_cast<double>(uniform_plan(in.model, Scheme::kInt8Weights).schemes.size());
  const double wanted = o.search.evaluations > 0 ? static_cast<double>(o.search.evaluations) : c.evaluations * groups;
  const double front = static_cast<double>(std::min<int64_t>(o.search.front, static_cast<int64_t>(wanted)));
  f.of(Step::kSearch) = searches(o)
                            ? wanted * (c.candidate + c.search_share * sample * search) / o.jobs + front * judged
                            : wanted * (c.candidate + judged);
  if (searches(o) && by_latency(o)) f.of(Step::kSearch) += c.timed_seconds;
  f.of(Step::kExplain) = c.closing + Closing::of(o, sample).analysis;
  if (searches(o) || !by_latency(o)) f.of(Step::kTime) = 31 * 2 * sample * (searches(o) ? c.finalists : 5);
  return f;
}

}  // namespace seqto::internal
