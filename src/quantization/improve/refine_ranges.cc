#include "seqto/improve.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <unordered_set>

#include "quantization/arithmetic/arithmetic.h"

namespace seqto {
namespace {

constexpr float kStep = 0.1f;       // of an end's first place
constexpr float kHalf = 0.5f;       // steps of scales that are powers of two: less would leave most as they are
constexpr float kNarrowest = 0.3f;  // an end goes no further
constexpr int kPatience = 2;        // places without gain before an end stops
constexpr double kLeastGain = 0.005;
// Values of an output that are compared, at most; of larger ones, evenly spaced.
constexpr int64_t kComparedValues = 1 << 16;

// Squared errors of the even and of the odd samples.
using HalfErrors = std::array<double, 2>;
double sum(const HalfErrors& e) { return e[0] + e[1]; }

std::vector<float> compared_values(const Tensor& output) {
  std::vector<float> all = internal::to_floats(output);
  int64_t stride = (std::ssize(all) + kComparedValues - 1) / kComparedValues;
  if (stride <= 1) return all;
  std::vector<float> some;
  for (int64_t i = 0; i < std::ssize(all); i += stride) some.push_back(all[static_cast<size_t>(i)]);
  return some;
}

// What the float model answers to the samples, and how far another is from it.
class Judge {
 public:
  Judge(const Model& model, const SampleRun& on, int64_t max_samples) : runner_(on.runner), env_(on.env) {
    const std::span<const int64_t> samples = on.samples;
    int64_t count = std::min(std::ssize(samples), max_samples);
    auto session = on.runner.load(model, {.threads = 1});
    for (int64_t k = 0; k < count; ++k) {
      inputs_.push_back(on.data.read(samples[static_cast<size_t>(k * std::ssize(samples) / count)]).inputs);
      auto outputs = session->run(inputs_.back());
      squares_.resize(outputs.size());
      references_.emplace_back(outputs.size());
      for (size_t o = 0; o < outputs.size(); ++o) {
        if (outputs[o].type() != DataType::kFloat) continue;
        references_.back()[o] = compared_values(outputs[o]);
        for (float v : references_.back()[o]) squares_[o] += static_cast<double>(v) * v;
      }
    }
  }

  const Env& env() const { return env_; }

  // Nothing where one half of the samples already tells that it is no better than `to_beat`.
  std::optional<HalfErrors> errors(const Model& candidate, const HalfErrors& to_beat) const {
    auto session = runner_.load(candidate, {.threads = 1});
    HalfErrors errors{};
    for (size_t half : {size_t{0}, size_t{1}}) {
      for (size_t s = half; s < inputs_.size(); s += 2) {
        env_.stop_if_cancelled("refine");
        errors[half] += error(session->run(inputs_[s]), references_[s]);
        if (!(errors[half] < to_beat[half])) return {};
      }
    }
    return errors;
  }

 private:
  double error(const std::vector<Tensor>& outputs, const std::vector<std::vector<float>>& reference) const {
    double total = 0;
    for (size_t o = 0; o < outputs.size(); ++o) {
      if (squares_[o] <= 0) continue;
      std::vector<float> values = compared_values(outputs[o]);
      double squares = 0;
      for (size_t i = 0; i < reference[o].size(); ++i) {
        // Outputs whose size depends on the values may have lost some.
        double difference = i < values.size() ? static_cast<double>(values[i]) - reference[o][i] : reference[o][i];
        squares += difference * difference;
      }
      total += squares / squares_[o];
    }
    return total;
  }

  Runner& runner_;
  const Env& env_;
  std::vector<std::vector<Tensor>> inputs_;                  // by sample
  std::vector<std::vector<std::vector<float>>> references_;  // by sample and output
  std::vector<double> squares_;                              // by output
};

// Which ends of a range move.
struct Direction {
  bool low, high;
};

class Refiner {
 public:
  Refiner(const Candidate& candidate, const Judge& judge, const RefineOptions& options)
      : quantizer_(candidate.model, candidate.ranges, candidate.options),
        ranges_(candidate.ranges),
        plan_(candidate.plan),
        judge_(judge),
        options_(options),
        step_(candidate.options.power_of_two_scales ? kHalf : kStep),
        env_(judge.env()) {}

  Ranges run(const std::vector<std::string>& tensors) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    present_ = quantizer_.quantize(plan_, {options_.corrections});
    auto errors = judge_.errors(present_, {kInfinity, kInfinity});
    if (!errors) return ranges_;  // the outputs hold NaN, or there is nothing to compare
    errors_ = *errors;
    int64_t done = 0;
    for (const std::string& tensor : tensors) {
      env_.progress({"refine", done++, std::ssize(tensors), fmt::format("error {:.4g}", sum(errors_))});
      refine(tensor);
    }
    env_.progress({"refine", done, done, ""});
    return ranges_;
  }

 private:
  void refine(const std::string& tensor) {
    const Range given = ranges_.at(tensor);
    bool low = given.lowest < 0, high = given.highest > 0;
    if (low && high) narrow(tensor, given, {true, true});
    if (high) narrow(tensor, given, {false, true});
    if (low) narrow(tensor, given, {true, false});
  }

  void narrow(const std::string& tensor, const Range& given, Direction direction) {
    int failures = 0;
    for (float by = step_; failures < kPatience; by += step_) {
      Range range = ranges_.at(tensor);
      if (direction.low) range.lowest -= by * given.lowest;
      if (direction.high) range.highest -= by * given.highest;
      bool too_narrow = (direction.low && range.lowest > kNarrowest * given.lowest) ||
                        (direction.high && range.highest < kNarrowest * given.highest);
      if (too_narrow) return;
      Outcome outcome = try_range(tensor, range);
      if (outcome == Outcome::kSame) return;  // its codes follow another tensor's range
      failures = outcome == Outcome::kBetter ? 0 : failures + 1;
      if (failures == 0) by = 0;
    }
  }

  enum class Outcome { kSame, kBetter, kWorse };
  // Keeps the range where it helps.
  Outcome try_range(const std::string& tensor, Range range) {
    quantizer_.set_range(tensor, range);
    Model candidate = quantizer_.quantize(plan_, {options_.corrections});
    if (equal(candidate, present_)) {
      quantizer_.set_range(tensor, ranges_.at(tensor));
      return Outcome::kSame;
    }
    auto errors = judge_.errors(candidate, errors_);
    if (errors && sum(*errors) < (1 - kLeastGain) * sum(errors_)) {
      env_.log(LogLevel::kDebug, fmt::format("range of {}: {:.4g} to {:.4g}, error {:.4g} instead of {:.4g}", tensor,
                                             range.lowest, range.highest, sum(*errors), sum(errors_)));
      ranges_[tensor] = range;
      errors_ = *errors;
      present_ = std::move(candidate);
      return Outcome::kBetter;
    }
    quantizer_.set_range(tensor, ranges_.at(tensor));
    return Outcome::kWorse;
  }

  Quantizer quantizer_;
  Ranges ranges_;
  const Plan& plan_;
  const Judge& judge_;
  const RefineOptions& options_;
  const float step_;
  const Env& env_;
  Model present_;  // with the ranges as they are now
  HalfErrors errors_{};
};

// Those that have a range, in the order in which the model computes them.
std::vector<std::string> ordered_tensors(const Model& model, const Ranges& ranges) {
  std::vector<std::string> tensors;
  std::unordered_set<std::string> seen;
  auto add = [&](const std::string& name) {
    if (ranges.contains(name) && seen.insert(name).second) tensors.push_back(name);
  };
  for (const ValueInfo& v : model.graph.inputs) add(v.name);
  for (const Node& n : model.graph.nodes)
    for (const auto& name : n.outputs) add(name);
  return tensors;
}

}  // namespace

Ranges refine_ranges(const Candidate& candidate, const SampleRun& on, const RefineOptions& options) {
  if (on.samples.empty()) return candidate.ranges;
  const Judge judge(candidate.model, on, options.max_samples);
  return Refiner(candidate, judge, options).run(ordered_tensors(candidate.model, candidate.ranges));
}

}  // namespace seqto
