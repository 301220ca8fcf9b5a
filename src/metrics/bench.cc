#include "seqto/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>

#include "base/random.h"
#include "base/statistics.h"
#include "seqto/error.h"
#include "seqto/explain.h"
#include "seqto/runner.h"

namespace seqto {
namespace {

int64_t median_ns(const std::vector<int64_t>& ns) {
  return std::llround(median(std::vector<double>(ns.begin(), ns.end())));
}

// f(): what concerns one model; its errors say which.
template <class F>
auto about(const std::string& path, F f) -> decltype(f()) {
  try {
    return f();
  } catch (const DeviceGone&) {
    throw;
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{} (model {})", error.what(), path));
  }
}

BenchedModel described(const std::string& path) {
  const Model model = load_model(path);
  BenchedModel m;
  m.path = path;
  m.size_bytes = model_file_bytes(path, model);
  m.form = quantized_form(model).form;
  return m;
}

class Bench {
 public:
  Bench(std::span<const BenchInput> inputs, const BenchOptions& options, const Env& env)
      : inputs_(inputs), o_(options), env_(env), times_(inputs.size()) {
    o_.runner.isolated = true;
    o_.runner.workers = 1;
  }

  BenchResult run() {
    for (const BenchInput& input : inputs_) {
      result_.models.push_back(described(input.path));
      result_.random_inputs |= input.data->is_random();
    }
    start_ns_ = env_.clock_ns();
    for (int launch = 0; launch < o_.launches; ++launch) run_launch(launch);
    if (result_.rounds < o_.launches * o_.rounds)
      result_.cut_short =
          fmt::format("{} of {} rounds within {:g} s", result_.rounds, o_.launches * o_.rounds, o_.max_time_seconds);
    for (BenchedModel& m : result_.models) summarize(m);
    for (size_t i = 1; i < inputs_.size(); ++i) {
      result_.comparisons.push_back(compare_times(times_[0], times_[i], o_.margin));
      BenchComparison& c = result_.comparisons.back();
      const auto first = static_cast<double>(result_.models[0].size_bytes);
      c.same_size = std::abs(static_cast<double>(result_.models[i].size_bytes) - first) < 0.01 * first;
      c.why = reasons(result_.models[0], result_.models[i], c);
    }
    return std::move(result_);
  }

 private:
  struct Loaded {
    std::shared_ptr<Runner> runner;
    std::unique_ptr<Session> session;
  };

  void run_launch(int launch) {
    ++result_.launches;
    for (auto& times : times_) times.emplace_back();
    std::vector<Loaded> loaded;
    for (size_t i = 0; i < inputs_.size(); ++i) loaded.push_back(about(inputs_[i].path, [&] { return load(i); }));
    for (int round = 0; round < o_.rounds && (round < 2 || !late(launch)); ++round) {
      env_.stop_if_cancelled("bench");
      for (size_t i : order(round)) about(inputs_[i].path, [&] { time(i, *loaded[i].session, round); });
      ++result_.rounds;
      env_.progress({"bench", launch * o_.rounds + round + 1, static_cast<int64_t>(o_.launches) * o_.rounds, ""});
    }
    for (size_t i = 0; i < inputs_.size(); ++i) {
      BenchedModel& m = result_.models[i];
      if (m.idle_bytes > 0) m.peak_bytes = std::max(m.peak_bytes, loaded[i].runner->memory().peak_bytes);
      loaded[i].session.reset();
      if (launch + 1 == o_.launches) m.nodes = about(m.path, [&] { return nodes(i, *loaded[i].runner); });
    }
  }

  // A device behind a link takes one connection: one worker for all models, whose memory is nobody's own.
  bool one_connection() const { return o_.device.starts_with("tvm+"); }

  Loaded load(size_t i) {
    BenchedModel& m = result_.models[i];
    Loaded l{shared_ ? shared_ : carry_states(make_runner(o_.device, o_.runner, env_), load_model(m.path), o_.dataset),
             nullptr};
    if (one_connection()) shared_ = l.runner;
    else m.idle_bytes = std::max(m.idle_bytes, l.runner->memory().resident_bytes);
    result_.runner = l.runner->description();
    const int64_t before = env_.clock_ns();
    l.session = l.runner->load_file(m.path);
    m.load_ns.push_back(env_.clock_ns() - before);
    m.first_ns.push_back(l.session->run_timed(inputs_[i].data->read(0).inputs).ns);
    return l;
  }

  std::vector<size_t> order(int round) const {
    std::vector<size_t> order(inputs_.size());
    std::iota(order.begin(), order.end(), 0);
    std::rotate(order.begin(), order.begin() + (round / 2) % static_cast<int>(order.size()), order.end());
    if (round % 2) std::reverse(order.begin(), order.end());
    return order;
  }

  void time(size_t i, Session& session, int round) {
    const Dataset& data = *inputs_[i].data;
    auto ns = session.time(data.read(round % data.size()).inputs, 1 + o_.repeats);
    ns.erase(ns.begin());
    times_[i].back().push_back(static_cast<double>(median_ns(ns)));
    auto& all = result_.models[i].runs_ns;
    all.insert(all.end(), ns.begin(), ns.end());
  }

  bool late(int launch) const {
    if (o_.max_time_seconds <= 0) return false;
    const double seconds = static_cast<double>(env_.clock_ns() - start_ns_) / 1e9;
    return seconds > o_.max_time_seconds * (launch + 1) / o_.launches;
  }

  // With few runs of what takes long: about a second.
  std::vector<NodePlacement> nodes(size_t i, Runner& runner) const {
    const int64_t run_ns = std::max<int64_t>(1, median_ns(result_.models[i].runs_ns));
    const int runs = 2 + static_cast<int>(std::min<int64_t>(18, 1'000'000'000 / run_ns));
    return runner.placement(load_model(inputs_[i].path), inputs_[i].data->read(0).inputs, runs);
  }

  static void summarize(BenchedModel& m) {
    const std::vector<double> runs(m.runs_ns.begin(), m.runs_ns.end());
    m.load_median_ns = median_ns(m.load_ns);
    m.first_median_ns = median_ns(m.first_ns);
    m.p50_ns = std::llround(quantile(runs, 0.5));
    m.p90_ns = std::llround(quantile(runs, 0.9));
    m.p99_ns = std::llround(quantile(runs, 0.99));
    const double sum = std::accumulate(runs.begin(), runs.end(), 0.0);
    m.runs_per_second = sum > 0 ? 1e9 * static_cast<double>(runs.size()) / sum : 0;
  }

  std::span<const BenchInput> inputs_;
  BenchOptions o_;
  const Env& env_;
  BenchResult result_;
  std::vector<RoundTimes> times_;  // of each model
  std::shared_ptr<Runner> shared_;
  int64_t start_ns_ = 0;
};

// The mean of the launches' medians, and its interval.
struct Estimate {
  double value = 0;
  Interval interval;
};

// The quantile of a bootstrap that leaves 2.5 % out when only `n` values were drawn from: the plain one is too narrow.
double expanded_quantile(size_t n) {
  return 0.5 * std::erfc(1.96 * expansion(static_cast<int64_t>(n)) / std::sqrt(2.0));
}

Estimate estimate(const RoundTimes& launches) {
  auto mean_of_medians = [](const RoundTimes& values) {
    double sum = 0;
    for (const auto& launch : values) sum += median(launch);
    return sum / static_cast<double>(values.size());
  };
  constexpr int kResamples = 2000;
  std::mt19937_64 engine(launches.size());
  std::vector<double> means;
  for (int k = 0; k < kResamples; ++k) {
    RoundTimes drawn;
    for (size_t i = 0; i < launches.size(); ++i) {
      const auto& launch = launches[internal::below(launches.size(), engine)];
      auto& rounds = drawn.emplace_back();
      for (size_t j = 0; j < launch.size(); ++j) rounds.push_back(launch[internal::below(launch.size(), engine)]);
    }
    means.push_back(mean_of_medians(drawn));
  }
  const double left_out = expanded_quantile(launches.size() > 1 ? launches.size() : launches[0].size());
  return {mean_of_medians(launches), {quantile(means, left_out), quantile(means, 1 - left_out)}};
}

RoundTimes paired(const RoundTimes& first, const RoundTimes& other, const std::function<double(double, double)>& f) {
  RoundTimes result;
  for (size_t i = 0; i < first.size(); ++i) {
    auto& rounds = result.emplace_back();
    for (size_t j = 0; j < first[i].size(); ++j) rounds.push_back(f(first[i][j], other[i][j]));
  }
  return result;
}

}  // namespace

int64_t model_file_bytes(const std::filesystem::path& path, const Model& model) {
  auto bytes = static_cast<int64_t>(std::filesystem::file_size(path));
  for (const auto& file : model.external_files) bytes += static_cast<int64_t>(std::filesystem::file_size(file));
  return bytes;
}

BenchComparison compare_times(const RoundTimes& first, const RoundTimes& other, double margin) {
  // Latencies differ by factors: the logarithm makes twice and half as far from equal.
  const auto ratio =
      estimate(paired(first, other, [](double a, double b) { return std::log(std::max(b, 1.0) / std::max(a, 1.0)); }));
  const auto difference = estimate(paired(first, other, [](double a, double b) { return b - a; }));
  BenchComparison c;
  c.ratio = std::exp(ratio.value);
  c.ratio_interval = {std::exp(ratio.interval.low), std::exp(ratio.interval.high)};
  c.difference_ns = difference.value;
  c.difference_interval = difference.interval;
  constexpr size_t kFewest = 4;  // rounds of one launch: of fewer resamples tell nothing
  if (first.size() == 1 && first[0].size() < kFewest) return c;
  if (c.ratio_interval.low > 1 && c.ratio > 1 + margin) c.speed = Speed::kSlower;
  if (c.ratio_interval.high < 1 && c.ratio < 1 - margin) c.speed = Speed::kFaster;
  return c;
}

BenchResult bench(std::span<const BenchInput> models, const BenchOptions& options, const Env& env) {
  if (models.empty()) throw Error(Code::kUsage, "[bench] no model found; at least one expected");
  for (const auto& [name, count] :
       {std::pair("launches", options.launches), {"rounds", options.rounds}, {"repeats", options.repeats}})
    if (count < 1) throw Error(Code::kUsage, fmt::format("[bench] {} of {} found; at least 1 expected", name, count));
  return Bench(models, options, env).run();
}

}  // namespace seqto
