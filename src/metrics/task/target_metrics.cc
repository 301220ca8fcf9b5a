// Metrics of classes and of numbers: accuracy, mean errors, landmarks.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/files.h"
#include "base/json.h"
#include "metrics/task/class_metrics.h"
#include "metrics/task/task_metric_kinds.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

const Outputs& first_output(const Answers& answers) {
  if (answers.outputs.empty())
    throw Error(Code::kInvalidInput, "[metric] a model without outputs found; at least one expected");
  return answers.outputs[answers.first];
}

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Of samples that count, by where they come from, among so many in all.
Score mean_score(std::vector<double> values, std::span<const Origin> origins, size_t all) {
  Score score{.value = mean_of(values)};
  const Blocks blocks = blocks_of(origins);
  if (values.size() == all || blocks.empty()) score.samples = std::move(values);
  else score.replicates = mean_on_resamples(values, blocks);
  return score;
}

class Accuracy : public NamedMetric {
 public:
  Accuracy() : NamedMetric("accuracy", true) {}
  Score score(const Answers& answers, const Answers&, std::span<const Truth> truths) const override {
    std::vector<int64_t> labels;
    std::vector<Origin> origins;
    for (const Truth& truth : truths) {
      labels.push_back(truth.label);
      if (truth.label >= 0) origins.push_back(truth.origin);
    }
    LabelledOutputs scored = seqto::score(first_output(answers), labels);
    if (scored.hits.empty())
      throw Error(Code::kInvalidInput,
                  fmt::format("[metric] accuracy: no labels found; give --labels FILE.csv, or an array y beside the "
                              "inputs{}",
                              internal::kOfFixedBatch));
    return mean_score(std::move(scored.hits["top1"]), origins, truths.size());
  }
};

// An error for each sample that has a target, of the first output and the target, flattened.
class TargetMetric : public NamedMetric {
 public:
  using NamedMetric::NamedMetric;

 protected:
  virtual double error(std::span<const float> found, std::span<const float> target) const = 0;

  struct Errors {
    std::vector<double> values;
    std::vector<Origin> origins;
  };
  Errors errors(const Answers& answers, std::span<const Truth> truths) const {
    answers.require_one_length("[metric] " + name() + ":");
    const Outputs& outputs = first_output(answers);
    Errors errors;
    for (size_t i = 0; i < truths.size(); ++i) {
      const std::vector<float>& target = truths[i].target;
      if (target.empty()) continue;
      if (static_cast<int64_t>(target.size()) != outputs.columns)
        throw Error(Code::kInvalidInput,
                    fmt::format("[metric] {}: an output of {} values and a target of {} found; as many of both "
                                "expected; the target of a sample is the first output as it should be",
                                name(), outputs.columns, target.size()));
      errors.values.push_back(error(outputs.row(static_cast<int64_t>(i)), target));
      errors.origins.push_back(truths[i].origin);
    }
    if (errors.values.empty())
      throw Error(Code::kInvalidInput,
                  fmt::format("[metric] {}: no targets found; give --labels FILE.csv with columns target..., an .npz "
                              "of targets, or an array y beside the inputs{}",
                              name(), internal::kOfFixedBatch));
    return errors;
  }
};

class MeanError : public TargetMetric {
 public:
  using TargetMetric::TargetMetric;
  Score score(const Answers& answers, const Answers&, std::span<const Truth> truths) const override {
    Errors each = errors(answers, truths);
    return mean_score(std::move(each.values), each.origins, truths.size());
  }
};

class Mae : public MeanError {
 public:
  Mae() : MeanError("mae", false) {}

 protected:
  double error(std::span<const float> found, std::span<const float> target) const override {
    double sum = 0;
    for (size_t i = 0; i < found.size(); ++i) sum += std::abs(static_cast<double>(found[i]) - target[i]);
    return sum / static_cast<double>(found.size());
  }
};

class Rmse : public TargetMetric {
 public:
  Rmse() : TargetMetric("rmse", false) {}
  Score score(const Answers& answers, const Answers&, std::span<const Truth> truths) const override {
    const Errors squares = errors(answers, truths);
    Score score{.value = std::sqrt(mean_of(squares.values))};
    for (const double mean : mean_on_resamples(squares.values, blocks_of(squares.origins)))
      score.replicates.push_back(std::sqrt(mean));
    return score;
  }

 protected:
  double error(std::span<const float> found, std::span<const float> target) const override {
    double sum = 0;
    for (size_t i = 0; i < found.size(); ++i) sum += std::pow(static_cast<double>(found[i]) - target[i], 2);
    return sum / static_cast<double>(found.size());
  }
};

// What a face's landmarks are measured by.
struct NmeOptions {
  size_t dimensions = 2;  // of a point; they lie one after the other
  enum class By { kBox, kDiagonal, kPoints, kNumber } by = By::kBox;
  size_t first = 0, second = 0;  // kPoints: their distance
  double number = 1;
};

NmeOptions read_nme(const std::string& file) {
  NmeOptions o;
  if (file.empty()) return o;
  const auto fail = [&](const std::string& found) {
    throw Error(Code::kInvalidInput,
                fmt::format("[metric] {}: {}; {{\"dimensions\": 2, \"normalize\": \"box\", \"diagonal\", a number, or "
                            "[i, j] for the distance of two points}} expected; correct it",
                            file, found));
  };
  try {
    const auto json = parse_json(read_file(file));
    for (const auto& [key, value] : json.items())
      if (key != "dimensions" && key != "normalize") fail(fmt::format("the key \"{}\" found", key));
    o.dimensions = json.value("dimensions", o.dimensions);
    if (o.dimensions < 1 || o.dimensions > 3) fail(fmt::format("{} dimensions found", o.dimensions));
    if (!json.contains("normalize")) return o;
    const auto& by = json["normalize"];
    if (by == "box") o.by = NmeOptions::By::kBox;
    else if (by == "diagonal") o.by = NmeOptions::By::kDiagonal;
    else if (by.is_number() && by.get<double>() > 0) o.by = NmeOptions::By::kNumber, o.number = by;
    else if (by.is_array() && by.size() == 2)
      o.by = NmeOptions::By::kPoints, o.first = by[0].get<size_t>(), o.second = by[1].get<size_t>();
    else fail(fmt::format("normalize {} found", by.dump()));
  } catch (const nlohmann::json::exception& error) {
    fail(error.what());
  }
  return o;
}

class Nme : public MeanError {
 public:
  explicit Nme(NmeOptions options) : MeanError("nme", false), o_(options) {}

 protected:
  double error(std::span<const float> found, std::span<const float> target) const override {
    const size_t points = target.size() / o_.dimensions;
    if (points * o_.dimensions != target.size() || std::max(o_.first, o_.second) >= points)
      throw Error(Code::kInvalidInput,
                  fmt::format("[metric] nme: a target of {} values found; points of {} coordinates expected{}; say how "
                              "many with --metric nme=FILE.json",
                              target.size(), o_.dimensions,
                              o_.by == NmeOptions::By::kPoints
                                  ? fmt::format(", more than {} of them", std::max(o_.first, o_.second))
                                  : ""));
    double sum = 0;
    for (size_t p = 0; p < points; ++p) sum += distance(found, p, target, p);
    return sum / static_cast<double>(points) / scale(target, points);
  }

 private:
  double distance(std::span<const float> a, size_t i, std::span<const float> b, size_t j) const {
    double square = 0;
    for (size_t d = 0; d < o_.dimensions; ++d)
      square += std::pow(static_cast<double>(a[i * o_.dimensions + d]) - b[j * o_.dimensions + d], 2);
    return std::sqrt(square);
  }

  double scale(std::span<const float> target, size_t points) const {
    if (o_.by == NmeOptions::By::kNumber) return o_.number;
    if (o_.by == NmeOptions::By::kPoints) return distance(target, o_.first, target, o_.second);
    double area = 1, diagonal = 0;
    const size_t axes = std::min<size_t>(o_.dimensions, 2);  // the box is that of the picture
    for (size_t d = 0; d < axes; ++d) {
      float low = target[d], high = target[d];
      for (size_t p = 0; p < points; ++p) {
        low = std::min(low, target[p * o_.dimensions + d]);
        high = std::max(high, target[p * o_.dimensions + d]);
      }
      area *= static_cast<double>(high) - low;
      diagonal += std::pow(static_cast<double>(high) - low, 2);
    }
    if (o_.by == NmeOptions::By::kDiagonal) return std::sqrt(diagonal);
    return axes == 1 ? area : std::sqrt(area);
  }

  NmeOptions o_;
};

}  // namespace

std::shared_ptr<const Metric> make_accuracy() { return std::make_shared<Accuracy>(); }
std::shared_ptr<const Metric> make_mae() { return std::make_shared<Mae>(); }
std::shared_ptr<const Metric> make_rmse() { return std::make_shared<Rmse>(); }
std::shared_ptr<const Metric> make_nme(const std::string& file) { return std::make_shared<Nme>(read_nme(file)); }

}  // namespace seqto::internal
