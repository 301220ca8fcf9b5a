#include "seqto/calibrate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <mutex>
#include <unordered_set>

#include "base/parallel.h"
#include "data/state_mark.h"
#include "model/graph_view.h"
#include "quantization/calibration/observe_values.h"
#include "quantization/calibration/range_observer.h"
#include "seqto/error.h"
#include "seqto/quantize.h"

namespace seqto {
namespace {

using internal::RangeObserver, internal::TensorStatistics;

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

// What several sessions at a time may take.
constexpr int64_t kMostSessionBytes = int64_t{1} << 30;

// Shows the samples to the observer: the runtime on one thread, whose sums are always the same, and as many samples
// side by side as the runner has threads.
class Pass {
 public:
  Pass(const Model& model, const SampleRun& on, SessionOptions how, RangeObserver& observer)
      : model_(model), on_(on), how_(how), observer_(observer) {
    how_.threads = 1;
  }

  // `done` of `total` samples were shown in passes before.
  void run(std::span<const std::string> tensors, int64_t done, int64_t total) {
    struct Seen {
      std::string name;
      std::vector<internal::Extremes> extremes;
    };
    std::vector<Seen> seen(on_.samples.size());
    std::mutex mutex;
    std::vector<std::unique_ptr<Lane>> idle;
    const auto take_lane = [&] {
      {
        std::lock_guard lock(mutex);
        if (!idle.empty()) {
          auto lane = std::move(idle.back());
          idle.pop_back();
          return lane;
        }
      }
      return std::make_unique<Lane>(*this, tensors);
    };
    const auto show = [&](size_t i) {
      on_.env.stop_if_cancelled("calibrate");
      auto lane = take_lane();
      Sample sample = on_.data.read(on_.samples[i]);
      run_sample(*lane->session, sample);
      seen[i] = {std::move(sample.name), lane->observer.take_sample()};
      std::lock_guard lock(mutex);
      idle.push_back(std::move(lane));
    };
    const auto end = [&](size_t i) {
      const Seen sample = std::move(seen[i]);
      observer_.end_sample(sample.name, sample.extremes);
      on_.env.progress({"calibrate", ++done, total, ""});
    };
    if (const size_t count = lanes(); count > 1) return for_each_in_order(seen.size(), count, show, end);
    for (size_t i = 0; i < seen.size(); ++i) {
      show(i);
      end(i);
    }
  }

 private:
  struct Lane {
    Lane(Pass& pass, std::span<const std::string> tensors)
        : observer(pass.observer_), session(pass.on_.runner.load_observed(pass.model_, tensors, observer, pass.how_)) {}
    RangeObserver::Lane observer;
    std::unique_ptr<Session> session;
  };

  size_t lanes() const {
    const int64_t wanted = std::min<int64_t>(on_.runner.threads(), std::ssize(on_.samples));
    if (wanted <= 1) return 1;
    // Each on the states of the one before.
    const Sample first = on_.data.read(on_.samples.front());
    if (std::any_of(first.inputs.begin(), first.inputs.end(), internal::may_be_state_mark)) return 1;
    const int64_t fit = kMostSessionBytes / std::max<int64_t>(1, serialized_size(model_));
    return static_cast<size_t>(std::clamp<int64_t>(fit, 1, wanted));
  }

  const Model& model_;
  const SampleRun& on_;
  SessionOptions how_;
  RangeObserver& observer_;
};

// Where NaN is a fault of the samples or of the model. Within, a Softmax over masks alone gives it, and a Where behind
// takes it away.
void mark_ends(RangeObserver& observer, const Model& model) {
  std::unordered_set<std::string> ends;
  for (const ValueInfo& input : model.graph.free_inputs()) ends.insert(input.name);
  for (const ValueInfo& output : model.graph.outputs) ends.insert(output.name);
  for (TensorStatistics& tensor : observer.tensors()) tensor.is_end = ends.contains(tensor.name);
}

void warn_of_nan(RangeObserver& observer, const Env& env) {
  std::vector<const TensorStatistics*> found;
  for (const TensorStatistics& tensor : observer.tensors())
    if (!tensor.first_nan.empty()) found.push_back(&tensor);
  if (found.empty()) return;
  env.log(LogLevel::kWarning,
          fmt::format("NaN in '{}'{}, first for sample '{}': no range spans it, and layers that read or write it stay "
                      "float; look for a division by 0 or a row that is masked whole",
                      found[0]->name, found.size() == 1 ? "" : fmt::format(" and {} other tensors", found.size() - 1),
                      found[0]->first_nan));
}

// Of samples that tell nothing of what will come: others of their kind would not show that the model is ruined.
void warn_of_samples(const Model& model, RangeObserver& observer, const Ranges& ranges, const SampleRun& on) {
  const auto warn = [&](const std::string& found) {
    on.env.log(LogLevel::kWarning, fmt::format("{}; give samples like those that the model will read", found));
  };
  std::unordered_set<std::string> empty;  // a past of nothing
  for (const TensorStatistics& tensor : observer.tensors())
    if (tensor.all.empty() && !tensor.unbounded) empty.insert(tensor.name);
  bool any = false, varies = false;
  for (const ValueInfo& input : model.graph.free_inputs()) {
    const auto found = ranges.find(input.name);
    if (found == ranges.end() || empty.contains(input.name)) continue;
    const Range& range = found->second;
    any = true;
    varies |= range.lowest < range.highest;
    if (std::max(-range.lowest, range.highest) >= kUnbounded)
      warn(fmt::format("the calibration samples hold infinity in the input '{}', which stays float", input.name));
  }
  const size_t count = on.samples.size();
  if (any && !varies) warn(fmt::format("the inputs hold a single value in all of {} calibration samples", count));
  else if (count == 1) warn("the ranges come from one calibration sample: values beyond them will be cut off");
}

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
  validate(options);
  auto tensors = observed_tensors(model, options.op_types.empty() ? default_op_types() : options.op_types);
  const int64_t count = std::ssize(on.samples);
  RangeObserver observer(tensors, options, count);
  mark_ends(observer, model);
  const SessionOptions how{options.exact ? SessionOptions::Optimization::kNone : SessionOptions::Optimization::kAll};
  Pass pass(model, on, how, observer);
  pass.run(tensors, 0, count);
  observer.end();
  if (observer.waits()) {
    const auto waiting = observer.begin_second_pass();
    pass.run(waiting, count, 2 * count);
  }
  Ranges ranges;
  for (auto& t : observer.tensors()) ranges[t.name] = observer.range_of(t);
  warn_of_samples(model, observer, ranges, on);
  warn_of_nan(observer, on.env);
  return ranges;
}

Ranges internal::observe_values(const Model& model, const SampleRun& on, int bins) {
  const auto tensors = observed_tensors(model, default_op_types());
  // A method whose histogram grows as values come.
  RangeObserver observer(tensors, {.method = CalibrationMethod::kMse, .exact = false, .bins = bins},
                         std::ssize(on.samples));
  Pass(model, on, {SessionOptions::Optimization::kAll}, observer).run(tensors, 0, std::ssize(on.samples));
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
