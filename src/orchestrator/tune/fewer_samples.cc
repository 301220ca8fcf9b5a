#include "orchestrator/tune/fewer_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/json.h"
#include "metrics/study_header.h"
#include "orchestrator/tune/tune_options.h"
#include "seqto/metrics.h"

namespace seqto::internal {
namespace {

namespace fs = std::filesystem;

struct Counts {
  int64_t calibration, search, evaluation;
  bool operator==(const Counts&) const = default;
};

// Of the limit, that one pass may take. Of the evaluation a run makes three at least (float, published, one plan); of
// the search samples one for each candidate; the calibration's are run with every tensor looked at, in several passes.
constexpr double kEvaluation = 1.0 / 10, kSearch = 1.0 / 30, kCalibration = 1.0 / 40;
constexpr int64_t kFewestEvaluated = 16, kFewestSearched = 8, kFewestCalibrated = 8;

int64_t within(double seconds, double sample_seconds, int64_t fewest) {
  const double most = seconds / std::max(sample_seconds, 1e-9);
  return most < 1e9 ? std::max(fewest, static_cast<int64_t>(most)) : std::numeric_limits<int64_t>::max();
}

std::optional<Counts> begun_with(const fs::path& study) {
  // Of an empty file, or one whose first line was never finished, nothing goes on.
  if (!fs::exists(study) || read_file(study).find('\n') == std::string::npos) return {};
  const Study begun = Study::read(study);
  const std::string* noted = begun.noted(kFewerSamples);
  if (!noted) return Counts{0, 0, 0};
  const auto counts = parse_json(*noted);
  return Counts{counts.at(0), counts.at(1), counts.at(2)};
}

// Seconds of a sample, read and run; the runtime's first run is slow.
double timed_sample(const Dataset& data, std::span<const int64_t> samples, Session& session, const TimeLimit& time) {
  constexpr size_t kMost = 4;
  session.run(data.read(samples[0]).inputs);
  const double begin = time.spent();
  size_t count = 0;
  while (count < kMost && (count == 0 || time.spent() - begin < time.part(0.01))) {
    session.run(data.read(samples[count % samples.size()]).inputs);
    ++count;
  }
  return (time.spent() - begin) / static_cast<double>(count);
}

}  // namespace

std::vector<int64_t> evenly(const std::vector<int64_t>& samples, int64_t count) {
  if (count >= std::ssize(samples)) return samples;
  std::vector<int64_t> some;
  for (int64_t i = 0; i < count; ++i) some.push_back(samples[static_cast<size_t>(i * std::ssize(samples) / count)]);
  return some;
}

FewerSamples::FewerSamples(const TuneOptions& o, const fs::path& study, const Dataset& data, Place& place, Runner& here,
                           TimeLimit& time, Split& split) {
  const std::optional<Counts> begun = o.resume ? begun_with(study) : std::nullopt;
  const Counts all{std::ssize(split.calibration), std::ssize(split.search), std::ssize(split.evaluation)};
  Counts wanted = all;
  if (time.is_limited()) {
    const auto session = place.runner->load_file(o.model.string());
    const double seconds = timed_sample(data, split.evaluation, *session, time);
    std::shared_ptr<Session> own = here.load_file(o.model.string());
    const auto inputs = std::make_shared<std::vector<Tensor>>(data.read(split.evaluation.front()).inputs);
    own->run(*inputs);
    time.took(seconds, [own, inputs] { own->run(*inputs); });
    if (!begun && o.dataset.states.empty())
      wanted = {within(time.part(kCalibration), seconds, kFewestCalibrated),
                within(time.part(kSearch), seconds, kFewestSearched) / 2 * 2,
                within(time.part(kEvaluation), seconds, kFewestEvaluated)};
  }
  if (begun && begun->evaluation > 0) wanted = *begun;
  split.calibration = evenly(split.calibration, wanted.calibration);
  split.search = evenly(split.search, wanted.search);
  split.evaluation = evenly(split.evaluation, wanted.evaluation);
  const Counts taken{std::ssize(split.calibration), std::ssize(split.search), std::ssize(split.evaluation)};
  if (taken == all) return;
  note_ = nlohmann::json{taken.calibration, taken.search, taken.evaluation}.dump();
  text_ = fmt::format(
      "--max-time lasts for {} of {} samples to calibrate, {} of {} to search on and {} of {} to evaluate on; more "
      "time in another folder takes them all",
      taken.calibration, all.calibration, taken.search, all.search, taken.evaluation, all.evaluation);
}

}  // namespace seqto::internal
