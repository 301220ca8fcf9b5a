// How far off predicted latencies are, on mixed plans that were never timed.
//
// Each network's uniform plans are profiled and timed, as `tune` does, then the mixtures that it learns from. Unseen
// mixtures, of static int8, float and (every other one) weight-only or dynamic schemes, are timed afterwards in turn
// with the float model, twice, each time loaded anew. The columns: mean error and rank correlation (Spearman's) of what
// was predicted from the uniform plans alone; of what `tune` starts with; of the first timing against the second, below
// which no prediction can be told from a better one.
//
//   ./dev bench latency             SEQTO_BENCH_CASE=resnet8,squeezenet11: some of the networks
//   ... --write                     into bench/results/latency.json
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <random>
#include <sstream>

#include "base/random.h"
#include "orchestrator/tune/search_space.h"
#include "search/latency/latency_model.h"
#include "search/latency/mixtures.h"

#include "case_study.h"

namespace {

using namespace seqto;
using namespace seqto::internal;
namespace fs = std::filesystem;

constexpr size_t kUnseen = 32;
constexpr int64_t kRounds = 30;

std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return values[i]; });
  std::vector<double> result(values.size());
  for (size_t i = 0; i < order.size(); ++i) result[order[i]] = static_cast<double>(i);
  return result;
}

// Error and rank correlation of one list of times against the other.
struct Agreement {
  double off = 0, rank = 0;

  Agreement(const std::vector<double>& found, const std::vector<double>& expected) {
    const auto n = static_cast<double>(found.size());
    const std::vector<double> a = ranks(found), b = ranks(expected);
    double distance = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      off += std::abs(found[i] / expected[i] - 1) / n;
      distance += (a[i] - b[i]) * (a[i] - b[i]);
    }
    rank = 1 - 6 * distance / (n * (n * n - 1));
  }
};

class Network : CaseStudy {
 public:
  explicit Network(TuneOptions options)
      : CaseStudy(std::move(options)), groups_(search_space(bench_.model, bench_.quantize, bench_.options).groups) {}

  // A line of the table, and of ratios.
  std::string compared(const std::string& name) {
    Runner& runner = *references_.places.front().runner;
    const auto candidate = [this](const Plan& plan) { return references_.candidate(plan); };
    const SearchTuning& tuning = bench_.options.search.tuning;
    auto model = LatencyModel::profiled({bench_.model, groups_, tuning}, candidate, runner, first_inputs(inputs_));
    if (!model) return fmt::format("{}: the runtime does not tell what its nodes cost\n", name);
    learn(*model, uniform_plans(groups_));
    const LatencyModel from_uniform = *model;
    learn(*model, mixtures(groups_, static_cast<size_t>(tuning.timed_mixed), 1));
    const std::vector<Plan> plans = unseen();
    const double in_float = model->measured({}).value();
    const std::vector<double> first = timed(plans, in_float), second = timed(plans, in_float);
    std::vector<double> measured;
    for (size_t i = 0; i < plans.size(); ++i) measured.push_back((first[i] + second[i]) / 2);
    const auto against = [&](const LatencyModel& predicting) {
      std::vector<double> predicted;
      for (const Plan& plan : plans) predicted.push_back(predicting.predict(plan));
      return Agreement(predicted, measured);
    };
    const Agreement alone = against(from_uniform), tune = against(*model), again(first, second);
    return fmt::format("| {} | {} | {:.1f} % | {:.3f} | {:.1f} % | {:.3f} | {:.1f} % | {:.3f} |\n", name,
                       groups_.size(), 100 * alone.off, alone.rank, 100 * tune.off, tune.rank, 100 * again.off,
                       again.rank) +
           fmt::format("ratio off, {} {:.4f} lower\nratio rank, {} {:.4f} higher\n", name, tune.off, name, tune.rank);
  }

 private:
  std::vector<Plan> unseen() const {
    std::mt19937_64 engine(3);
    std::vector<Plan> plans = mixtures(groups_, kUnseen, 2);
    for (size_t i = 0; i < plans.size(); i += 2)
      for (size_t g = 0; g < groups_.size(); ++g) {
        const auto choice = below(groups_[g].choices.size(), engine);
        const bool is_float = std::ranges::none_of(
            groups_[g].layers, [&](const LayerId& layer) { return plans[i].schemes.contains(layer); });
        if (is_float && !is_static(groups_[g].schemes[choice].scheme))
          for (const auto& [layer, scheme] : groups_[g].choices[choice].schemes) plans[i].schemes[layer] = scheme;
      }
    return plans;
  }

  // Nanoseconds on a machine where the float model takes `in_float`; 0: as it takes now.
  std::vector<double> timed(const std::vector<Plan>& plans, double in_float) {
    Runner& runner = *references_.places.front().runner;
    std::vector<std::unique_ptr<Session>> sessions;
    sessions.push_back(runner.load(references_.candidate({})));
    for (const Plan& plan : plans) sessions.push_back(runner.load(references_.candidate(plan)));
    const auto inputs = [&](int64_t) { return first_inputs(inputs_); };
    const auto times = times_in_turn(sessions, inputs, [](int64_t round) { return round <= kRounds; });
    std::vector<double> medians;
    for (const auto& own : times) medians.push_back(static_cast<double>(summarize_latency(own).median_ns));
    const double scale = in_float > 0 ? in_float / medians.front() : 1;
    for (double& ns : medians) ns *= scale;
    now_ = medians.front();
    medians.erase(medians.begin());
    return medians;
  }

  void learn(LatencyModel& model, const std::vector<Plan>& plans) {
    const std::vector<double> ns = timed(plans, model.measured({}).value_or(0));
    std::vector<LatencyModel::Measured> measured{{{}, now_}};
    for (size_t i = 0; i < plans.size(); ++i) measured.push_back({plans[i], ns[i]});
    model.learn(measured);
  }

  std::vector<SearchGroup> groups_;
  double now_ = 0;  // what the float model took in the last timing
};

}  // namespace

int main() {
  const char* wanted = std::getenv("SEQTO_BENCH_CASE");
  std::stringstream names(wanted ? wanted
                                 : "resnet8,resnet20,squeezenet11,shufflenetv2_x05,mobilenet_v1_025,mobilenetv2,"
                                   "dscnn_kws,tiny_encoder,vit_pgd");
  fmt::print(
      "| network | groups | off, from uniform plans | rank | off, as tune starts | rank | off, timed again | rank |\n"
      "|---|---|---|---|---|---|---|---|\n");
  for (std::string name; std::getline(names, name, ',');) {
    const fs::path at = fs::path(SEQTO_CASES_DIR) / name;
    if (!fs::exists(at / "case.json")) continue;
    fmt::print("{}", Network(case_options(at)).compared(name));
    std::fflush(stdout);
  }
}
