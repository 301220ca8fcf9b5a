#include "orchestrator/tune/forecast.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "orchestrator/tune/evaluate.h"
#include "orchestrator/tune/improvements.h"
#include "orchestrator/tune/search_space.h"
#include "quantization/improve/coded_layers.h"
#include "quantization/improve/round_weights.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

// Seconds of work on samples: some whatever their number, and some for each.
struct Line {
  double start = 0, each = 0;
  double of(double samples) const { return start + each * samples; }
};

// What a run does often, done once or twice on this machine.
struct Pace {
  Line calibrating;         // and rewriting the float model
  Line evaluating;          // a candidate, which is made and loaded: the mean of int8 and int8_weights
  double learning_row = 0;  // a square of a layer's inputs, times a row of what it reads
};

double seconds(const Env& env, const auto& work) {
  const int64_t begin = env.clock_ns();
  work();
  return static_cast<double>(env.clock_ns() - begin) / 1e9;
}

// `work` on one sample and on some more, as many as run in a twentieth of a second. Other work of the machine may fall
// on any of them: where they are short, the middle of three counts.
Line timed(const Inputs& in, const Env& env, const auto& work) {
  const auto more = static_cast<size_t>(std::clamp(0.05 / std::max(in.sample_seconds, 1e-6), 2.0, 32.0));
  const auto middle = [&](size_t samples) {
    constexpr double kShort = 0.1;
    std::vector<double> times{seconds(env, [&] { work(samples); })};
    while (times.front() < kShort && times.size() < 3) times.push_back(seconds(env, [&] { work(samples); }));
    std::ranges::sort(times);
    return times[times.size() / 2];
  };
  const double one = middle(1), each = std::max(0.0, (middle(1 + more) - one) / static_cast<double>(more));
  return {std::max(0.0, one - each), each};
}

// Some two hundred runs of a sample: where a limit lasts for no more than so many times that, it is the forecast.
// Nor where a study goes on: how much of it is left is not known.
bool is_worth_timing(const Inputs& in, const Study& study) {
  if (!study.trials().empty()) return false;
  constexpr double kRuns = 200, kTimes = 20;
  const double limit = in.options.max_time_seconds;
  return limit <= 0 || kTimes * kRuns * in.sample_seconds < limit;
}

double timed_learning_row(const Env& env) {
  constexpr Eigen::Index kInputs = 128, kOutputs = 32, kRows = 4096;
  const Eigen::MatrixXf inputs = Eigen::MatrixXf::Random(kInputs, kRows);
  const Eigen::MatrixXf outputs = Eigen::MatrixXf::Random(kOutputs, kRows);
  Moments moments(kInputs, kOutputs);
  return seconds(env, [&] { moments.add(inputs, outputs); }) / (kInputs * kInputs * kRows);
}

Pace measured(const Inputs& in) {
  const TuneOptions& o = in.options;
  Env quiet = in.env;
  quiet.progress = [](const Progress&) {};
  quiet.log = [](LogLevel, std::string_view) {};
  const auto first = [](const std::vector<int64_t>& part, size_t count) {
    return std::span(part).first(std::min(count, part.size()));
  };
  Model model;
  QuantizeOptions quantize;
  Ranges ranges;
  Pace pace{.learning_row = timed_learning_row(quiet)};
  pace.calibrating = timed(in, quiet, [&](size_t count) {
    const SampleRun on{*in.samples.data, first(in.samples.split.calibration, count), *in.runner, quiet};
    quantize = o.quantize;
    model = in.model;
    if (o.improvers.rewrites()) model = rewrite_for(model, o.improvers, quantize, quantized_scheme(o), on);
    ranges = calibrate(model, on, calibration_of(o));
  });
  Place place{.device = in.devices.front().name, .runner = in.devices.front().runner.get()};
  place.evaluation.data = in.samples.data.get();
  Quantizer quantizer(model, std::move(ranges), quantize);
  for (const Scheme scheme : {quantized_scheme(o), Scheme::kInt8Weights}) {
    const Plan plan = uniform_plan(model, scheme, quantize.exclude);
    quantizer.quantize(plan);  // the codes of the weights, which candidates share
    const Line line = timed(in, quiet, [&](size_t count) {
      const auto some = first(in.samples.split.evaluation, count);
      place.evaluation.samples = {some.begin(), some.end()};
      evaluate(quantizer.quantize(plan), {}, {std::span(&place, 1), quiet});
    });
    pace.evaluating.start += line.start / 2, pace.evaluating.each += line.each / 2;
  }
  return pace;
}

Pace pace_of(const Inputs& in, const Study& study) {
  const Pace by_samples{{0, in.sample_seconds}, {0, in.sample_seconds}};
  if (!is_worth_timing(in, study)) return by_samples;
  try {
    return measured(in);
  } catch (const Error& e) {  // the run itself will say what is wrong
    if (e.code() == Code::kInterrupted) throw;
    return by_samples;
  }
}

// To learn the rounding of one scheme. Each layer takes a candidate that is made anew.
double learning_seconds(const Model& model, double samples, const Pace& pace) {
  // A weight's codes cost as much for each output and input as the moments do for ten rows.
  constexpr double kCodes = 10;
  std::unordered_map<LayerId, std::vector<int64_t>> shapes;
  for (Layer& layer : layers(model)) shapes[layer.id] = std::move(layer.output_shape);
  double seconds = 0;
  for (const auto& [node, weight, layout] : layers_to_learn(model)) {
    const auto inputs = static_cast<double>(layout.inputs), outputs = static_cast<double>(layout.outputs);
    const std::vector<int64_t>& shape = shapes[node->name];
    double values = 1;  // of a sample
    for (size_t i = 1; i < shape.size(); ++i) values *= static_cast<double>(std::max<int64_t>(1, shape[i]));
    const auto wanted = static_cast<double>(wanted_rows(layout, {}));
    const double rows = std::min(std::max(1.0, values / outputs) * samples,
                                 std::max(wanted, static_cast<double>(kPositions) * samples));
    const auto groups = static_cast<double>(layout.groups);
    seconds += pace.evaluating.start +
               pace.learning_row * inputs * inputs * (groups * rows + kCodes * (outputs + groups * inputs));
  }
  return seconds;
}

// What the strategy itself says; one of the caller's own is taken to try as many plans as most do. The published one
// goes through all layers.
double evaluations(const Inputs& in, const SearchSpace& space, int64_t front) {
  const TuneOptions& o = in.options;
  StrategyOptions options = o.search;
  options.front = front;
  const std::string strategy = o.own.strategy ? "random" : o.strategy;
  const int64_t all = searches(o) ? make_strategy(strategy, space, options)->expected() - front
                                  : std::ssize(uniform_plan(in.model, quantized_scheme(o), o.quantize.exclude).schemes);
  return static_cast<double>(o.max_evaluations > 0 ? std::min(all, o.max_evaluations) : all);
}

// Before a search that follows latencies, and while it goes on.
double timing_seconds(const TuneOptions& o, const Pace& pace) {
  constexpr double kRuns = 2 * 21, kMost = 10;  // of each plan; seconds (predicted_latencies.cc, time_budget.h)
  constexpr double kTimes = 6;                  // at first, of the chain, while plans are swapped, three of the report
  const double plans = o.search.tuning.timed_mixed + static_cast<double>(o.schemes.size()) + 1;
  return kTimes * std::min(kMost, plans * pace.evaluating.of(kRuns));
}

}  // namespace

Forecast forecast(const Inputs& in, const Study& study) {
  const TuneOptions& o = in.options;
  const Split& split = in.samples.split;
  const double sample = in.sample_seconds;
  const Pace pace = pace_of(in, study);
  const auto count = [](const std::vector<int64_t>& part) { return static_cast<double>(part.size()); };
  const double calibration = count(split.calibration), judging = pace.evaluating.of(count(split.evaluation));
  const double passing = pace.calibrating.each * calibration;
  const SearchSpace space = search_space(in.model, o.quantize, o);
  const double wanted = evaluations(in, space, o.search.front);
  const double front = std::min(static_cast<double>(o.search.front), wanted);
  Forecast f;
  f.of(Step::kFloat) = sample * (count(split.evaluation) + count(split.search));
  f.of(Step::kCalibrate) = pace.calibrating.of(calibration);
  const bool improves = !leaves_unimproved(o, study);
  const double learned = improves ? static_cast<double>(schemes_that_learn(o, in.model)) : 0;
  f.of(Step::kImprove) = learned * (learning_seconds(in.model, calibration, pace) + passing) + 2 * judging;
  if (improves && o.improvers.rewrites())
    f.of(Step::kImprove) += pace.calibrating.of(calibration);  // of the model as it came
  if (searches(o)) {
    // A candidate that differs in one layer runs from there on: on average half of the model (prefixes.h).
    const double looking = pace.evaluating.of(count(split.search) / 2 / 2);
    // Biases of a plan's own: layer after layer, as learning goes.
    const double own = learned > 0 ? pace.evaluating.start * static_cast<double>(space.groups.size()) + passing : 0;
    f.of(Step::kSearch) = wanted * looking / static_cast<double>(o.jobs) + front * (own + judging);
    if (by_latency(o)) f.of(Step::kSearch) += timing_seconds(o, pace);
  } else {
    f.of(Step::kSearch) = wanted * judging;
  }
  const Closing closing = Closing::of(o, sample);
  f.of(Step::kExplain) = closing.analysis + closing.drawing + front * pace.evaluating.start;
  constexpr double kReferences = 3;
  const double finalists = (searches(o) ? front : 3) + kReferences;
  if (searches(o) || !by_latency(o))
    f.of(Step::kTime) = finalists * (pace.evaluating.start + Closing::of(o, pace.evaluating.each).timing);
  return f;
}

}  // namespace seqto::internal
