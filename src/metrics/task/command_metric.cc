// A metric of the user's own: a command that reads two .npz and prints a number.
#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/files.h"
#include "base/run_command.h"
#include "metrics/task/task_metric_kinds.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

namespace fs = std::filesystem;

// Outputs under their names, the samples' truth beside them where it is known.
void save_answers(const fs::path& file, const Answers& answers, std::span<const Truth> truths) {
  std::vector<Initializer> arrays;
  for (size_t o = 0; o < answers.outputs.size(); ++o)
    arrays.push_back(
        {answers.names[o], float_tensor(answers.array_shape(o, "[metric] a command:"), answers.outputs[o].values)});
  std::vector<int64_t> labels;
  std::vector<float> targets, boxes;
  int64_t rows = 0;
  bool one_size = true, labelled = false;
  for (size_t i = 0; i < truths.size(); ++i) {
    labels.push_back(truths[i].label);
    labelled |= truths[i].label >= 0;
    one_size &= truths[i].target.size() == truths[0].target.size();
    targets.insert(targets.end(), truths[i].target.begin(), truths[i].target.end());
    for (const Box& b : truths[i].boxes.value_or(std::vector<Box>())) {
      boxes.insert(boxes.end(), {static_cast<float>(i), static_cast<float>(b.label), b.left, b.top, b.right, b.bottom});
      ++rows;
    }
  }
  const auto count = static_cast<int64_t>(truths.size());
  if (labelled) arrays.push_back({"labels", int64_tensor({count}, std::move(labels))});
  if (one_size && !targets.empty()) {
    const int64_t size = std::ssize(targets) / count;
    arrays.push_back({"targets", float_tensor({count, size}, std::move(targets))});
  }
  if (rows > 0) arrays.push_back({"boxes", float_tensor({rows, 6}, std::move(boxes))});
  save_npz(file, arrays);
}

// Each sample as often as it was drawn.
Answers resampled(const Answers& answers, std::span<const double> counts) {
  Answers drawn(answers.names);
  drawn.dims = answers.dims;
  for (const Outputs& outputs : answers.outputs) {
    Outputs& rows = drawn.outputs.emplace_back();
    for (int64_t i = 0; i < outputs.rows; ++i)
      for (auto left = static_cast<int64_t>(counts[i]); left > 0; --left) rows.append(outputs.row(i));
  }
  return drawn;
}

class CommandMetric : public NamedMetric {
 public:
  CommandMetric(std::string name, bool higher_is_better, std::string command, double timeout_seconds, int resamples)
      : NamedMetric(std::move(name), higher_is_better),
        command_(std::move(command)),
        timeout_seconds_(timeout_seconds),
        resamples_(resamples) {}

  Score score(const Answers& answers, const Answers& reference, std::span<const Truth> truths) const override {
    Score score{.value = figure(answers, reference, truths)};
    if (resamples_ == 0) return score;
    std::vector<Origin> origins;
    for (const Truth& truth : truths) origins.push_back(truth.origin);
    const auto replicate = [&](std::span<const double> counts) {
      std::vector<Truth> drawn;
      for (size_t i = 0; i < truths.size(); ++i) drawn.insert(drawn.end(), static_cast<size_t>(counts[i]), truths[i]);
      score.replicates.push_back(figure(resampled(answers, counts), resampled(reference, counts), drawn));
    };
    for_each_resample(truths.size(), resamples_, replicate, blocks_of(origins));
    return score;
  }

 private:
  double figure(const Answers& answers, const Answers& reference, std::span<const Truth> truths) const {
    const TemporaryFolder folder;
    const fs::path first = folder.path / "reference.npz", second = folder.path / "candidate.npz";
    save_answers(first, reference, truths);
    save_answers(second, answers, truths);
    const std::string line = last_line(printed(first, second));
    double value = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
    if (error != std::errc() || end != line.data() + line.size() || !std::isfinite(value))
      fail(fmt::format("\"{}\" found as the last line that it printed; a number expected", line));
    return value;
  }

  [[noreturn]] void fail(const std::string& found) const {
    throw Error(Code::kInvalidInput,
                fmt::format("[metric] {}: {}; the command gets two .npz files and prints a number: {}", name(), found,
                            command_));
  }

  std::string printed(const fs::path& first, const fs::path& second) const {
    const Finished finished = run_command(
        {"/bin/sh", "-c", command_ + " \"$@\"", "sh", first.string(), second.string()}, timeout_seconds_, {}, "metric");
    if (finished.late)
      fail(fmt::format("no answer after {} seconds found; one within --metric-timeout expected", timeout_seconds_));
    if (!finished.good)
      fail(fmt::format("it {}{}{}; exit code 0 expected", finished.how, finished.errors.empty() ? "" : ": ",
                       last_line(finished.errors)));
    return finished.output;
  }

  std::string command_;
  double timeout_seconds_;
  int resamples_;
};

}  // namespace

std::shared_ptr<const Metric> make_command_metric(std::string name, bool higher_is_better, std::string command,
                                                  double timeout_seconds, int resamples) {
  return std::make_shared<CommandMetric>(std::move(name), higher_is_better, std::move(command), timeout_seconds,
                                         resamples);
}

}  // namespace seqto::internal
