// A metric that is a Python function.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "own_parts.h"

namespace seqto::python {
namespace {

// Labels, or else the numbers to predict; None where nothing is known.
nb::object array_of(std::span<const Truth> truths) {
  const auto count = std::ssize(truths);
  if (std::ranges::any_of(truths, [](const Truth& t) { return t.label >= 0; })) {
    std::vector<int64_t> labels;
    for (const Truth& truth : truths) labels.push_back(truth.label);
    return to_numpy(int64_tensor({count}, labels));
  }
  const size_t columns = truths.empty() ? 0 : truths.front().target.size();
  if (columns == 0 || std::ranges::any_of(truths, [&](const Truth& t) { return t.target.size() != columns; }))
    return nb::none();
  std::vector<float> targets;
  for (const Truth& truth : truths) targets.insert(targets.end(), truth.target.begin(), truth.target.end());
  return to_numpy(Tensor::from(DataType::kFloat, {count, static_cast<int64_t>(columns)}, std::move(targets)));
}

class OwnMetric : public Metric {
 public:
  explicit OwnMetric(nb::handle function) : function_(nb::borrow(function)), name_(name_of(function)) {}
  const std::string& name() const override { return name_; }
  bool higher_is_better() const override { return true; }

  Score score(const Answers& answers, const Answers&, std::span<const Truth> truths) const override {
    nb::gil_scoped_acquire interpreter;
    nb::dict by_name;
    for (size_t i = 0; i < answers.outputs.size(); ++i)
      by_name[answers.names.at(i).c_str()] = to_numpy(
          Tensor::from(DataType::kFloat, answers.array_shape(i, "[metric] " + name_ + ":"), answers.outputs[i].values));
    const Tensor found = tensor_of(function_.get()(by_name, array_of(truths)), DataType::kDouble, true,
                                   "the result of the metric '" + name_ + "'");
    const auto values = found.values<double>();
    const auto labelled = std::ranges::count_if(truths, [](const Truth& t) { return t.label >= 0; });
    const bool of_samples = std::ssize(values) == answers.rows() || std::ssize(values) == labelled;
    if (found.dims().size() > 1 || values.empty() || (values.size() > 1 && !of_samples))
      refuse(fmt::format("an array of {} axes and {} values", found.dims().size(), values.size()));
    const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
    if (!std::isfinite(mean)) refuse(fmt::format("{}", mean));
    if (values.size() == 1) return {mean, {}, {}};
    return {mean, {values.begin(), values.end()}, {}};
  }

 private:
  [[noreturn]] void refuse(const std::string& found) const {
    throw Error(
        Code::kInvalidInput,
        fmt::format("[metric] {} gave {}; one number expected, or one for each sample that counts", name_, found));
  }

  const Held function_;
  const std::string name_;
};

}  // namespace

std::shared_ptr<const Metric> own_metric(nb::handle function) { return std::make_shared<OwnMetric>(function); }

}  // namespace seqto::python
