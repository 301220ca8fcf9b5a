#include "seqto/calibrate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <future>
#include <unordered_set>

#include "model/graph_view.h"
#include "quantization/calibration/observe_values.h"
#include "quantization/calibration/range_observer.h"
#include "seqto/error.h"
#include "seqto/quantize.h"

namespace seqto {
namespace {

using internal::RangeObserver;

constexpr std::array<std::string_view, 6> kMethods{"minmax", "moving_average", "entropy", "percentile",
                                                   "mse",    "distribution"};

std::vector<std::string> observed_tensors(const Model& model, const std::vector<std::string>& op_types) {
  internal::GraphView index(model);
  std::unordered_set<std::string> types(op_types.begin(), op_types.end()), seen;
  std::vector<std::string> tensors;
  for (const Node& node : model.graph.nodes) {
    if (!types.contains(node.op_type)) continue;
    for (const auto* names : {&node.inputs, &node.outputs})
      for (const auto& name : *names)
        if (index.is_float(name) && !index.is_initializer(name) && seen.insert(name).second) tensors.push_back(name);
  }
  return tensors;
}

void validate(const CalibrateOptions& o) {
  auto usage = [](std::string text) { throw Error(Code::kUsage, "[calibrate] " + std::move(text)); };
  if (!(o.percentile > 0 && o.percentile <= 100))
    usage(fmt::format("percentile {} found; a number above 0 and up to 100 was expected", o.percentile));
  if (o.bins < 0 || o.bins > 1 << 20) usage(fmt::format("{} bins found; 1 to 1048576 were expected", o.bins));
  if (o.quantized_bins < 2) usage(fmt::format("{} quantized bins found; at least 2 were expected", o.quantized_bins));
  if (!(o.moving_average_constant >= 0 && o.moving_average_constant <= 1))
    usage(fmt::format("moving average constant {} found; 0 to 1 was expected", o.moving_average_constant));
  if (o.chunk_samples < 0) usage(fmt::format("chunks of {} samples found; 0 or more was expected", o.chunk_samples));
  auto uses = [&](CalibrationMethod m) {
    return o.method == m || std::any_of(o.tensor_methods.begin(), o.tensor_methods.end(),
                                        [&](const auto& entry) { return entry.second == m; });
  };
  const int bins = internal::bins_of(o, CalibrationMethod::kDistribution);
  if (uses(CalibrationMethod::kDistribution) && bins < 512)
    usage(fmt::format("{} bins found; distribution needs at least 512", bins));
}

// Runs the samples in order. With more than one thread the next sample is decoded while this one is run.
class Pass {
 public:
  Pass(const Dataset& data, std::span<const int64_t> samples, int threads, const Env& env)
      : data_(data), samples_(samples), threads_(threads), env_(env) {}

  void run(Session& session, RangeObserver& observer, int64_t done, int64_t total) {
    for (size_t i = 0; i < samples_.size(); ++i) {
      env_.stop_if_cancelled("calibrate");
      Sample sample = take(i);
      session.run(sample.inputs);
      observer.end_sample(sample.name);
      env_.progress({"calibrate", ++done, total, ""});
    }
  }

 private:
  Sample take(size_t i) {
    if (threads_ <= 1) return data_.read(samples_[i]);
    Sample sample = next_.valid() ? next_.get() : data_.read(samples_[i]);
    if (i + 1 < samples_.size())
      next_ = std::async(std::launch::async, [this, i] { return data_.read(samples_[i + 1]); });
    return sample;
  }

  const Dataset& data_;
  std::span<const int64_t> samples_;
  int threads_;
  const Env& env_;
  std::future<Sample> next_;
};

}  // namespace

std::string_view to_string(CalibrationMethod method) { return kMethods[static_cast<size_t>(method)]; }

CalibrationMethod parse_calibration_method(std::string_view name) {
  auto it = std::find(kMethods.begin(), kMethods.end(), name);
  if (it == kMethods.end()) {
    const std::vector<std::string> known(kMethods.begin(), kMethods.end());
    throw Error(Code::kUsage, fmt::format("[calibrate] method '{}' found; one of {} was expected{}", name,
                                          fmt::join(known, ", "), did_you_mean(name, known)));
  }
  return static_cast<CalibrationMethod>(it - kMethods.begin());
}

CalibrateOptions calibration_named(const std::string& name, CalibrateOptions options) {
  constexpr std::string_view kPercentile = "percentile:";
  if (!name.starts_with(kPercentile)) {
    options.method = parse_calibration_method(name);
    return options;
  }
  options.method = CalibrationMethod::kPercentile;
  const char* end = name.data() + name.size();
  if (std::from_chars(name.data() + kPercentile.size(), end, options.percentile) !=
      std::from_chars_result{end, std::errc()})
    throw Error(Code::kUsage,
                fmt::format("[calibrate] method '{}' found; a number as in percentile:99.99 was expected", name));
  return options;
}

Ranges calibrate(const Model& model, const SampleRun& on, const CalibrateOptions& options) {
  const auto& [data, samples, runner, env] = on;
  validate(options);
  auto tensors = observed_tensors(model, options.op_types.empty() ? default_op_types() : options.op_types);
  const int64_t count = std::ssize(samples);
  RangeObserver observer(tensors, options, count);
  const SessionOptions how{options.exact ? SessionOptions::Optimization::kNone : SessionOptions::Optimization::kAll};
  Pass pass(data, samples, runner.threads(), env);
  pass.run(*runner.load_observed(model, tensors, observer, how), observer, 0, count);
  observer.end();
  if (observer.waits()) {
    const auto waiting = observer.begin_second_pass();
    pass.run(*runner.load_observed(model, waiting, observer, how), observer, count, 2 * count);
  }
  Ranges ranges;
  for (auto& t : observer.tensors()) ranges[t.name] = observer.range_of(t);
  return ranges;
}

Ranges internal::observe_values(const Model& model, const SampleRun& on, int bins) {
  const auto& [data, samples, runner, env] = on;
  const auto tensors = observed_tensors(model, default_op_types());
  // A method whose histogram grows as values come.
  RangeObserver observer(tensors, {.method = CalibrationMethod::kMse, .exact = false, .bins = bins},
                         std::ssize(samples));
  Pass(data, samples, runner.threads(), env)
      .run(*runner.load_observed(model, tensors, observer, {SessionOptions::Optimization::kAll}), observer, 0,
           static_cast<int64_t>(samples.size()));
  observer.end();
  Ranges values;
  for (auto& t : observer.tensors()) {
    if (t.all.empty() || t.unbounded) continue;
    values[t.name] = {.lowest = t.all.lowest(), .highest = t.all.highest()};
    values[t.name].histogram =
        std::make_shared<Histogram>(std::get<internal::GrowingHistogram>(t.histogram).histogram());
  }
  return values;
}

}  // namespace seqto
