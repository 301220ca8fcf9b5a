#include "orchestrator/tune/finalists.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/machine.h"
#include "metrics/written_errors.h"
#include "orchestrator/study/summarize.h"
#include "seqto/bench.h"
#include "seqto/error.h"
#include "seqto/search.h"
#include "seqto/validate.h"
#include "seqto/verify.h"

namespace seqto::internal {
namespace {

namespace fs = std::filesystem;

struct TimedFiles {
  std::vector<Latency> latencies, decode_latencies;  // of a prompt; of the next token, where the model remembers
  std::string failure;                               // an interruption too leaves no latencies
};

// The step behind a prompt, as this session remembers it.
std::vector<Tensor> after(const DecodeStep& step, const std::vector<Tensor>& prompt, Session& session) {
  auto next = next_inputs(step, prompt, session.run(prompt));
  if (!next) throw Error(Code::kInvalidInput, "what the float model remembers does not fit its inputs");
  return *std::move(next);
}

// The rounds of one device's finalists, while there is time.
class Rounds {
 public:
  Rounds(const TimeBudget& time, const Env& env) : time_(time), env_(env), start_(time.spent()) {}

  bool over() const { return !time_.leaves(0) && time_.spent() - start_ > time_.late_finalists(); }

  // Of each session, the float model's first; empty: there was no time. `inputs` gives those of a round.
  std::vector<Latency> run(std::span<const std::unique_ptr<Session>> sessions, const char* what,
                           const std::function<std::vector<Tensor>(size_t round)>& inputs) const {
    constexpr int64_t kRounds = 30;
    constexpr size_t kFewest = 4;  // rounds whose bootstrap tells anything
    double round_begin = time_.spent(), round_seconds = 0;
    const auto given = [&](int64_t round) {
      env_.stop_if_cancelled("evaluate");
      env_.progress({"time", round, kRounds, what});
      return inputs(static_cast<size_t>(round));
    };
    // One round to warm up, and then one: the fewest that tell anything.
    const auto goes_on = [&](int64_t round) {
      round_seconds = time_.spent() - std::exchange(round_begin, time_.spent());
      return round <= kRounds && (round < 2 ? !over() : time_.leaves(round_seconds));
    };
    std::vector<Latency> latencies;
    const auto rounds = times_in_turn(sessions, given, goes_on);
    if (rounds.front().empty()) return latencies;
    const auto of = [&](size_t i) { return RoundTimes{{rounds[i].begin(), rounds[i].end()}}; };
    for (size_t i = 0; i < rounds.size(); ++i) {
      latencies.push_back(summarize_latency(rounds[i]));
      if (i == 0 || rounds[i].size() < kFewest) continue;
      const BenchComparison compared = compare_times(of(0), of(i), kSame);
      latencies.back().over_float = {compared.ratio, compared.ratio_interval};
    }
    return latencies;
  }

 private:
  const TimeBudget& time_;
  const Env& env_;
  double start_;
};

constexpr double kAnyTimes = 1000;  // no ratio that is met is ruled out

constexpr const char* kNextTokens = "the next token of finalists in turn";

TimedFiles time_in_turn(const std::vector<std::string>& files, const Place& place, const TimeBudget& time,
                        const Env& env) {
  const EvaluationData& data = place.evaluation;
  const Rounds rounds(time, env);
  TimedFiles result;
  try {
    std::vector<std::unique_ptr<Session>> sessions;
    for (const auto& file : files) {
      if (rounds.over()) return {.failure = "--max-time is over"};
      sessions.push_back(place.runner->load_file(file));
    }
    const auto prompt = [&](size_t i) { return data.data->read(data.samples[i % data.samples.size()]).inputs; };
    result.latencies = rounds.run(sessions, "finalists in turn", prompt);
    // So few rounds tell nothing of their spread: nothing is faster for certain.
    for (Latency& latency : std::span(result.latencies).subspan(result.latencies.empty() ? 0 : 1))
      if (!latency.over_float) latency.over_float = {ratio_of(latency, result.latencies.front()), {0, kAnyTimes}};
    // Made before anything is timed: who has just read a prompt would be at an advantage.
    std::vector<std::vector<Tensor>> next;
    for (size_t i = 0; data.decode && i < std::min(kTimedPrompts, data.samples.size()) && !rounds.over(); ++i)
      next.push_back(after(*data.decode, prompt(i), *sessions.front()));
    if (!next.empty())
      result.decode_latencies = rounds.run(sessions, kNextTokens, [&](size_t i) { return next[i % next.size()]; });
    if (result.latencies.empty() || (data.decode && result.decode_latencies.empty()))
      result.failure = "--max-time is over";
  } catch (const DeviceGone&) {
    throw;
  } catch (const Error& error) {
    result.failure = error.what();
  }
  return result;
}

std::string model_file(const fs::path& folder, const std::string& id) { return StudyFolder{folder}.model(id).string(); }

// Whether all can be loaded at once. The runtime holds of a model what lies in the file, unfolded and packed.
bool fit_in_memory(const std::vector<std::string>& ids, const DeviceFront& found) {
  constexpr int64_t kTimes = 4;  // files of a float16 decoder took more than three times
  const int64_t available = available_memory();
  int64_t bytes = found.baseline.trial.measurement ? found.baseline.trial.measurement->size_bytes : 0;
  for (const SummaryPoint& point : found.trials)
    if (point.trial.id != "float" && point.trial.measurement && std::ranges::count(ids, point.trial.id) > 0)
      bytes += point.trial.measurement->size_bytes;
  return available == 0 || kTimes * bytes <= available;
}

// Where latency is an objective, all points compete again by what is timed now; else the front stays what it is.
std::vector<std::string> finalists_of(const DeviceFront& found, const Ending& ending, bool searched) {
  std::vector<std::string> ids{"float"};
  const auto add = [&](const std::string& id) {
    if (std::ranges::find(ids, id) == ids.end()) ids.push_back(id);
  };
  const auto measured = [&](const std::string& id) {
    return std::ranges::any_of(found.trials,
                               [&](const SummaryPoint& p) { return p.trial.id == id && p.trial.measurement; });
  };
  if (measured("full")) add("full");
  if (!searched && ending.limits.empty()) {
    std::ranges::for_each(found.top, add);
    add(found.selected);
    return ids;
  }
  if (measured("published")) add("published");
  for (const SummaryPoint& point : counts_time(ending.objectives) ? found.trials : found.front)
    if (point.trial.measurement) add(point.trial.id);
  return ids;
}

}  // namespace

void time_finalists(const Inputs& in, OpenStudy& study, std::span<const Place> places, const TimeBudget& time) {
  const Env& env = in.env;
  if (env.cancelled()) return;
  const fs::path& folder = in.options.output;
  const auto time_on = [&](const Place& place, const DeviceFront& found) {
    const std::vector<std::string> ids = finalists_of(found, study.ending, searches(in.options));
    if (!fit_in_memory(ids, found)) {
      study.ending.notes.push_back(fmt::format(
          "finalists were not timed in turn on {}, their latencies are the trials': the {} models do not fit in memory "
          "together",
          place.device, ids.size()));
      return;
    }
    std::vector<std::string> files;
    for (const auto& id : ids) files.push_back(model_file(folder, id));
    const TimedFiles timed = time_in_turn(files, place, time, env);
    if (env.cancelled()) return;
    if (!timed.failure.empty())
      study.ending.notes.push_back(
          fmt::format("finalists could not be timed again on {}, their {}latencies are the trials': {}", place.device,
                      timed.latencies.empty() ? "" : "decode ", timed.failure));
    for (size_t i = 0; i < timed.latencies.size(); ++i)
      study.ending.latencies[place.device][ids[i]] = timed.latencies[i];
    for (size_t i = 0; i < timed.decode_latencies.size(); ++i)
      study.ending.decode_latencies[place.device][ids[i]] = timed.decode_latencies[i];
  };
  const Summary summary = summarize(study.study, folder, study.ending);
  time_on(places[0], summary);
  for (const Place& place : places.subspan(1))
    for (const DeviceFront& found : summary.elsewhere)
      if (found.device == place.device) time_on(place, found);
}

std::vector<Latency> time_steps(std::span<const Model> decoders, const std::vector<Tensor>& step, const Place& place,
                                const TimeBudget& time, const Env& env) {
  const Rounds rounds(time, env);
  std::vector<std::unique_ptr<Session>> sessions;
  for (const Model& decoder : decoders) {
    if (rounds.over()) return {};
    sessions.push_back(place.runner->load(decoder));
  }
  return rounds.run(sessions, kNextTokens, [&](size_t) { return step; });
}

std::vector<std::string> text_errors(const Inputs& in, const OpenStudy& study, const Place& place) {
  const EvaluationData& data = place.evaluation;
  const auto by = [&](const std::string& id) {
    return written_errors(in.text_errors, load_model(model_file(in.options.output, id)),
                          {*data.data, data.samples, *place.runner, in.env});
  };
  const auto by_float = by("float"), by_selected = by(summarize(study.study, in.options.output, study.ending).selected);
  std::vector<std::string> notes;
  for (const auto& [name, before] : by_float.rates) {
    const Score& after = by_selected.rates.at(name);
    std::vector<double> more(after.replicates);
    for (size_t i = 0; i < more.size(); ++i) more[i] -= before.replicates[i];
    const Interval interval = percentile_interval(more);
    notes.push_back(
        fmt::format("{} of {} written texts: {:.2f} % by float, {:.2f} % by the selected model; {:+.2f} % "
                    "({:+.2f} to {:+.2f} %)",
                    name, by_float.texts, 100 * before.value, 100 * after.value, 100 * (after.value - before.value),
                    100 * interval.low, 100 * interval.high));
  }
  return notes;
}

int64_t audited_samples(const Inputs& in) {
  const bool narrow = in.target && in.target->arithmetic && in.target->arithmetic->accumulator_bits < 32;
  if (!in.options.dataset.states.empty()) return 0;
  return std::max(in.options.audit_samples, narrow ? int64_t{kVerifiedSamples} : 0);
}

std::string audit_selected(const Inputs& in, const OpenStudy& study, const Place& place, const Env& env) {
  const fs::path& folder = in.options.output;
  const std::string id = summarize(study.study, folder, study.ending).selected;
  const Model model = load_model(model_file(folder, id));
  const EvaluationData& data = place.evaluation;
  const auto count = std::min(data.samples.size(), static_cast<size_t>(audited_samples(in)));
  const Outputs reference = first_rows(data.reference, static_cast<int64_t>(count));
  AuditOptions options{.file = in.options.model};
  if (in.target) options.arithmetic = in.target->arithmetic;
  const Audit found =
      audit(model, {*data.data, std::span(data.samples).first(count), *in.runner, env}, reference, options);
  const auto emulated = std::ranges::count_if(found.layers, &AuditedLayer::is_emulated);
  if (emulated == 0)
    return fmt::format("{} has no layers in int8 whose sums an audit emulates, so there was nothing to audit", id);
  if (options.arithmetic)
    return fmt::format(
        "audit of {} on {} samples: {} {:.3g} here, {:.3g} as {} adds and rounds; sums of {} of {} int8 layers "
        "were cut off{}",
        id, count, found.loss, objective(found.runtime, found.loss), objective(found.saturating, found.loss),
        in.target->name, found.proposed.size(), emulated,
        found.proposed.empty()
            ? ""
            : fmt::format("; seqto audit --target {} --plan-out gives reduce_range to these", in.options.target));
  return fmt::format(
      "audit of {} on {} samples: {} {:.3g} where int8 products are added exactly (VNNI, ARM), {:.3g} where they "
      "saturate (x86 without VNNI); {} of {} int8 layers did{}",
      id, count, found.loss, objective(found.exact, found.loss), objective(found.saturating, found.loss),
      found.proposed.size(), emulated,
      found.proposed.empty() ? "" : "; seqto audit --plan-out gives reduce_range to these");
}

std::string fault_of_selected(const Inputs& in, const OpenStudy& study, const Place& place) {
  const std::string id = summarize(study.study, in.options.output, study.ending).selected;
  const EvaluationData& data = place.evaluation;
  const auto first = std::span(data.samples).first(std::min(data.samples.size(), size_t{kVerifiedSamples}));
  const auto fault = find_optimization_fault(load_model(model_file(in.options.output, id)),
                                             {*data.data, first, *place.runner, in.env});
  return fault ? fmt::format("{}: {}", id, to_text(*fault)) : std::string();
}

}  // namespace seqto::internal
