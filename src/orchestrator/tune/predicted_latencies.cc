#include "orchestrator/tune/predicted_latencies.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "orchestrator/study/notes.h"
#include "search/latency/mixtures.h"
#include "search/strategies/archive.h"
#include "search/strategies/assignments.h"
#include "search/strategies/strategies.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

constexpr int64_t kRounds = 20, kFewest = 3, kBytes = int64_t{2} << 30;
constexpr int64_t kTimedAgain = 24;  // plans at a time, while the search runs: models in turn share the caches

bool has_static(const Plan& plan) {
  return std::ranges::any_of(plan.schemes, [](const auto& layer) { return is_static(layer.second); });
}

std::vector<Plan> probes(const std::vector<SearchGroup>& groups, const SearchTuning& tuning) {
  std::vector<Plan> plans = uniform_plans(groups);
  const std::vector<Plan> mixed = mixtures(groups, static_cast<size_t>(tuning.timed_mixed), 1);
  plans.insert(plans.end(), mixed.begin(), mixed.end());
  return plans;
}

}  // namespace

std::unique_ptr<PredictedLatencies> PredictedLatencies::of(Context context) {
  const Workbench& w = context.bench;
  const LatencyModel::Source source{w.model, context.groups, w.options.search.tuning};
  if (const auto text = notes::kLatencyModel.in(w.study)) {
    auto model = LatencyModel::from_json(*text, source);
    std::unique_ptr<PredictedLatencies> result(new PredictedLatencies(std::move(context), std::move(model)));
    result->errors_ = notes::kLatencyErrors.in(result->c_.bench.study).value_or(std::vector<double>());
    return result;
  }
  auto model = LatencyModel::profiled(source, context.candidate, *context.place.runner, context.inputs);
  if (!model) return {};
  std::unique_ptr<PredictedLatencies> result(new PredictedLatencies(std::move(context), std::move(*model)));
  result->model_.learn(result->timed(probes(result->c_.groups, result->c_.bench.options.search.tuning)));
  if (!result->c_.bench.env.cancelled()) result->save();  // whoever goes on times them
  return result;
}

std::unique_ptr<Session> PredictedLatencies::loaded(const Plan& plan) const {
  try {
    auto session = c_.place.runner->load(c_.candidate(plan));
    session->run(c_.inputs);  // it may load and not run
    return session;
  } catch (const DeviceGone&) {
    throw;
  } catch (const Error& error) {
    if (error.code() == Code::kInterrupted) throw;
    return nullptr;  // its trial says why
  }
}

std::vector<LatencyModel::Measured> PredictedLatencies::timed(std::span<const Plan> plans) const {
  const double start = c_.bench.time.spent(), seconds = c_.bench.time.timing_plans();
  const auto spent = [&] { return c_.bench.time.spent() - start; };
  // All of them are in memory.
  const auto most = static_cast<size_t>(std::max<int64_t>(4, kBytes / (c_.bench.study.header().model_size_bytes + 1)));
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<LatencyModel::Measured> measured;
  const auto add = [&](const Plan& plan) {
    if (auto session = loaded(plan)) sessions.push_back(std::move(session)), measured.push_back({plan, 0});
  };
  if (!c_.bench.time.leaves(0)) return {};
  add({});
  if (sessions.empty()) return {};
  // Where the time is limited, the fewest rounds of a slow model may take all of it.
  const double round_seconds = 2 * c_.bench.time.slowdown() *
                               static_cast<double>(c_.bench.study.find("float")->measurement->latency.median_ns) / 1e9;
  const auto rounds_fit = [&] {
    return !c_.bench.time.shortens_timing_plans() ||
           (kFewest + 1) * static_cast<double>(sessions.size() + 1) * round_seconds < seconds;
  };
  for (const Plan& plan : plans) {
    if (c_.bench.env.cancelled()) return {};
    if (sessions.size() > 1 && (spent() > seconds / 2 || sessions.size() > most || !rounds_fit())) break;
    add(plan);
  }
  const auto inputs = [&](int64_t round) {
    c_.bench.env.progress({"time", round, kRounds, "plans to predict latencies from"});
    return c_.inputs;
  };
  const auto times = times_in_turn(sessions, inputs, [&](int64_t round) {
    if (c_.bench.env.cancelled() || (round > 1 && !c_.bench.time.leaves(0))) return false;
    return round <= kFewest || (round <= kRounds && spent() < seconds);
  });
  if (c_.bench.env.cancelled()) return {};  // the loop ends with what there is
  const auto median = [&](size_t i) { return static_cast<double>(summarize_latency(times[i]).median_ns); };
  // The machine may be faster or slower by now.
  const double in_float = model_.measured({}).value_or(median(0));
  for (size_t i = 0; i < measured.size(); ++i) measured[i].ns = median(i) * in_float / median(0);
  return measured;
}

bool PredictedLatencies::learn_from(std::span<const Proposal> proposals, const StrategyOptions& options) {
  if (proposals.empty()) return false;
  const Proposal& first = proposals.front();
  std::vector<Plan> plans;
  const auto count = [&](const char* step) { return std::ranges::count(c_.bench.study.trials(), step, &Trial::step); };
  const bool reported = first.part == Part::kEvaluation && first.step != kUniformStep;
  constexpr int kReports = 3;  // each may bring others into the report
  if (reported && ++reports_timed_ > kReports) return false;
  if (reported || (first.step == kChainStep && !chain_timed_ && count(kChainStep) == 0)) {
    if (!reported) chain_timed_ = true;  // the chain that is made anew differs from it by little
    for (const Proposal& proposal : proposals) plans.push_back(proposal.plan);
  } else if (const int64_t moves = count(kSwapStep); first.step == kSwapStep && moves > 0) {
    const auto often = std::max<int64_t>(kTimedAgain, std::ssize(c_.groups));
    if (looked_at_ > 0 && moves < looked_at_ + often) return false;
    looked_at_ = moves;
    plans = best(options);
  }
  // The others take as long as the float model.
  std::erase_if(plans, [&](const Plan& plan) { return !has_static(plan) || model_.measured(plan); });
  if (plans.empty()) return false;
  constexpr auto kMost = static_cast<size_t>(kTimedAgain);
  std::vector<Plan> some;
  for (size_t i = 0; i < std::min(kMost, plans.size()); ++i)
    some.push_back(plans[i * plans.size() / std::min(kMost, plans.size())]);
  const std::vector<LatencyModel::Measured> measured = timed(some);
  if (measured.size() < 2) return false;
  for (const LatencyModel::Measured& one : std::span(measured).subspan(1))
    errors_.push_back(std::abs(model_.predict(one.plan) - one.ns) / one.ns);
  model_.learn(measured);
  save();
  return true;
}

std::vector<Plan> PredictedLatencies::best(const StrategyOptions& options) const {
  const SearchSpace space{.model = &c_.bench.model, .groups = c_.groups, .latency_of = std::cref(*this)};
  Archive archive(space, options);
  archive.update(c_.bench.study);
  const Assignments assignments(space);
  std::vector<Plan> plans;
  for (const Entry* entry : archive.front())
    if (entry->step != kOneInStep) plans.push_back(assignments.plan(entry->assignment));
  return plans;
}

void PredictedLatencies::save() const {
  notes::kLatencyModel.add(c_.bench.study, model_.to_json());
  if (!errors_.empty()) notes::kLatencyErrors.add(c_.bench.study, errors_);
}

std::string PredictedLatencies::error() const {
  constexpr size_t kFew = 3;
  if (errors_.size() < kFew) return {};
  const double sum = std::accumulate(errors_.begin(), errors_.end(), 0.0);
  return fmt::format(
      "the search predicted latencies from a profile of each scheme and from plans that it timed in turn; before they "
      "were timed {} plans were off by {:.1f} % on average",
      errors_.size(), 100 * sum / static_cast<double>(errors_.size()));
}

}  // namespace seqto::internal
