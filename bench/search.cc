// What the strategies of a search find, and what each of its constants is worth.
//
// The outputs of every plan that any search asks for are made once, on all samples, and kept; a search is then run on
// splits of these samples, so that strategies, constants and seeds are compared on the same plans and data. Latencies
// are those that the model of latencies predicts. A front is judged on samples that its search has not seen, by the
// share that it dominates of the box of size, loss and (with latency) time relative to the float model; the loss by
// four decades below that of the worst uniform plan.
//
//   ./dev bench search              chain, ilp, dynamic_program ... on all cases, five splits each
//   ./dev bench search --ablate     the constants of SearchTuning, on networks that they were not set on
//   ... --write                     into bench/results;  SEQTO_BENCH_CASE=resnet20,digits, SEQTO_BENCH_STRATEGIES,
//                                   SEQTO_BENCH_CONSTANT: some of them
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>
#include <unordered_map>

#include "base/files.h"
#include "base/random.h"
#include "orchestrator/tune/predicted_latencies.h"
#include "orchestrator/tune/search_space.h"
#include "search/strategies/archive.h"
#include "search/strategies/assignments.h"
#include "seqto/error.h"
#include "seqto/metrics.h"

#include "case_study.h"
#include "generated_networks.h"
#include "search_tuning.h"

#ifdef SEQTO_HAS_CBC
#include "ilp.h"
#endif

namespace {

using namespace seqto;
using namespace seqto::internal;
namespace fs = std::filesystem;

constexpr size_t kSplits = 5, kMostSamples = 192, kSearched = 64;

Outputs rows_of(const Outputs& outputs, std::span<const size_t> rows) {
  Outputs result{.dims = outputs.dims, .place = outputs.place};
  for (size_t row : rows) result.append(outputs.row(static_cast<int64_t>(row)));
  return result;
}

// What one plan comes to on all samples.
struct Made {
  double size = 0;
  Outputs outputs;
  std::vector<Losses> losses;  // empty: it does not run
};

// The samples of one split, each part in the order in which a search sees them.
struct Samples {
  std::vector<size_t> search, acceptance, evaluation;
  const std::vector<size_t>& of(Part part) const {
    return part == Part::kSearch ? search : part == Part::kAcceptance ? acceptance : evaluation;
  }
};

struct Found {
  double share = 0;    // of the box
  double plans = 0;    // that were measured on search and acceptance samples
  double samples = 0;  // and on how many in all
};

class Network : CaseStudy {
 public:
  Network(std::string name, TuneOptions options)
      : CaseStudy(std::move(options)), name_(std::move(name)), all_(references_.places.front().evaluation) {
    all_.warm_up = all_.pools = false;
    for (const auto* part : {&inputs_.samples.split.search, &inputs_.samples.split.evaluation})
      for (int64_t sample : *part)
        if (std::ranges::find(all_.samples, sample) == all_.samples.end()) all_.samples.push_back(sample);
    if (all_.samples.size() > kMostSamples) all_.samples.resize(kMostSamples);
    all_.metrics.clear();
    all_.labels.clear();
    auto session = references_.places.front().runner->load(references_.base.as_given());
    all_.reference = Outputs();
    all_.reference = measure(*session, all_, env_).outputs;
    // Timings differ from run to run; predictions of one run can serve another.
    const char* kept = std::getenv("SEQTO_BENCH_LATENCIES");
    const fs::path file = kept ? fs::path(kept) / (name_ + ".json") : fs::path();
    if (kept && fs::exists(file)) notes::kLatencyModel.add(study_.study, read_file(file));
    space_ = search_space(bench_.model, bench_.quantize, bench_.options);
    space_.size_of = [this](const Plan& plan) { return static_cast<int64_t>(size_of(plan)); };
    latencies_ = PredictedLatencies::of({.bench = bench_,
                                         .groups = space_.groups,
                                         .candidate = [this](const Plan& plan) { return references_.candidate(plan); },
                                         .place = references_.places.front(),
                                         .inputs = first_inputs(inputs_)});
    if (kept && latencies_) std::ofstream(file) << *notes::kLatencyModel.in(study_.study);
  }

  const std::string& name() const { return name_; }
  size_t groups() const { return space_.groups.size(); }
  bool has_latencies() const { return latencies_ != nullptr; }
  size_t plans() const { return made_.size(); }

  // `by_latency`: with static int8 to choose from.
  Found run(const std::string& strategy, bool by_latency, size_t split, const SearchTuning& tuning = {},
            int64_t evaluations = 0) {
    const SearchSpace space = space_of(by_latency);
    StrategyOptions options{.tuning = tuning, .evaluations = evaluations, .seed = split};
    if (by_latency) options.objectives = {"kl", "size", "latency"};
    const Samples samples = split_of(split);
    const fs::path file = folder_.path / "search.jsonl";
    fs::remove(file);
    StudyHeader header;
    header.search_samples = kSearched;
    Study study = Study::open(file, header);
#ifdef SEQTO_HAS_CBC
    const std::unique_ptr<Strategy> search =
        strategy == "ilp" ? std::make_unique<Ilp>(space, options) : make_strategy(strategy, space, options);
#else
    const std::unique_ptr<Strategy> search = make_strategy(strategy, space, options);
#endif
    Found found;
    for (;;) {
      std::vector<Proposal> proposals = search->next(study);
      if (proposals.empty()) break;
      for (Proposal& proposal : proposals) {
        Trial trial = measured(proposal, samples, by_latency);
        if (trial.part != Part::kEvaluation) {
          ++found.plans;
          if (trial.measurement) found.samples += static_cast<double>(trial.measurement->samples["kl"].size());
        }
        study.append(std::move(trial));
      }
    }
    found.share = share(study, space, by_latency);
    return found;
  }

  // Mean error of predictions of plans that were timed and not learned from, relative.
  double latency_error(const SearchTuning& tuning) {
    if (!latencies_) return 0;
    const nlohmann::json saved = nlohmann::json::parse(notes::kLatencyModel.in(study_.study).value());
    const auto& timed = saved.at("measured");
    double sum = 0, count = 0;
    for (size_t fold = 0; fold < 4; ++fold) {
      nlohmann::json learned = saved, left = nlohmann::json::array();
      learned["measured"] = nlohmann::json::array();
      for (size_t i = 0; i < timed.size(); ++i) (i % 4 == fold ? left : learned["measured"]).push_back(timed[i]);
      if (static_cast<double>(learned["measured"].size()) > tuning.timed_mixed)
        learned["measured"].erase(learned["measured"].begin() + static_cast<ptrdiff_t>(tuning.timed_mixed),
                                  learned["measured"].end());
      const LatencyModel model = LatencyModel::from_json(learned.dump(), {*space_.model, space_.groups, tuning});
      for (const auto& one : left) {
        const double ns = one.at("ns");
        sum += std::abs(model.predict(plan_of(one.at("schemes"))) - ns) / ns;
        ++count;
      }
    }
    return sum / count;
  }

 private:
  Plan plan_of(const std::vector<std::string>& schemes) const {
    Plan plan;
    for (size_t g = 0; g < schemes.size(); ++g)
      for (size_t c = 1; c < space_.groups[g].choices.size(); ++c)
        if (to_string(space_.groups[g].schemes[c].scheme) == schemes[g])
          plan.schemes.insert(space_.groups[g].choices[c].schemes.begin(), space_.groups[g].choices[c].schemes.end());
    return plan;
  }

  SearchSpace space_of(bool by_latency) {
    SearchSpace space = space_;
    if (by_latency) {
      space.latency_of = std::cref(*latencies_);
      return space;
    }
    for (SearchGroup& group : space.groups)
      for (size_t c = group.choices.size(); c-- > 1;)
        if (is_static(group.schemes[c].scheme)) {
          group.choices.erase(group.choices.begin() + static_cast<ptrdiff_t>(c));
          group.schemes.erase(group.schemes.begin() + static_cast<ptrdiff_t>(c));
        }
    std::erase_if(space.groups, [](const SearchGroup& group) { return group.choices.size() < 2; });
    return space;
  }

  double size_of(const Plan& plan) {
    const auto [place, is_new] = sizes_.try_emplace(plan.hash(), 0.0);
    if (is_new) place->second = static_cast<double>(serialized_size(references_.candidate(plan)));
    return place->second;
  }

  const Made& made(const Plan& plan) {
    const auto [place, is_new] = made_.try_emplace(plan.hash());
    if (!is_new) return place->second;
    Made& made = place->second;
    const Model candidate = references_.candidate(plan);
    made.size = static_cast<double>(serialized_size(candidate));
    try {
      auto session = references_.places.front().runner->load(candidate);
      EvaluationData data = all_;
      data.reference = Outputs();  // no losses yet
      made.outputs = measure(*session, data, env_).outputs;
      made.losses = compare_each(all_.reference, made.outputs);
    } catch (const Error& error) {
      if (error.code() == Code::kInterrupted) throw;
    }
    return made;
  }

  Samples split_of(size_t split) const {
    std::vector<size_t> order(all_.samples.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::mt19937_64 engine(split + 1);
    for (size_t i = 0; i + 1 < order.size(); ++i) std::swap(order[i], order[i + below(order.size() - i, engine)]);
    const size_t half = std::min(kSearched / 2, order.size() / 4);
    const auto at = order.begin();
    const auto cut = static_cast<ptrdiff_t>(half);
    return {uncertain_first({at, at + cut}), uncertain_first({at + cut, at + 2 * cut}), {at + 2 * cut, order.end()}};
  }

  std::vector<size_t> uncertain_first(const std::vector<size_t>& rows) const {
    EvaluationData part;
    part.reference = rows_of(all_.reference, rows);
    for (size_t row : rows) part.samples.push_back(static_cast<int64_t>(row));
    put_uncertain_first(part);
    return {part.samples.begin(), part.samples.end()};
  }

  Trial measured(Proposal& proposal, const Samples& split, bool by_latency) {
    Trial trial{.id = proposal.plan.hash(), .plan = proposal.plan, .part = proposal.part, .step = proposal.step};
    const Made& made = this->made(proposal.plan);
    if (made.losses.empty()) return trial;
    std::vector<size_t> rows = split.of(trial.part);
    std::vector<Losses> losses;
    for (size_t row : rows) {
      if (proposal.race && !losses.empty() && proposal.race->is_over(losses, static_cast<int64_t>(made.size))) break;
      losses.push_back(made.losses[row]);
    }
    rows.resize(losses.size());
    Measurement& m = trial.measurement.emplace();
    m.size_bytes = static_cast<int64_t>(made.size);
    m.losses = mean(losses);
    for (const Losses& one : losses) m.samples["kl"].push_back(one.kl);
    if (by_latency && trial.part != Part::kEvaluation)
      m.pooled_kl = pooled_kl(rows_of(all_.reference, split.of(trial.part)), rows_of(made.outputs, rows));
    return trial;
  }

  double share(const Study& study, const SearchSpace& space, bool by_latency) {
    const double size = size_of({}), time = by_latency ? space.latency_of({}) : 1;
    const Assignments assignments(space);
    double worst = 1e-12;
    const std::vector<size_t> rows = split_of(0).evaluation;
    for (const DetailedScheme& scheme : assignments.schemes()) {
      double loss = 0;
      const Made& uniform = made(assignments.plan(assignments.uniform(scheme)));
      for (size_t row : rows)
        if (!uniform.losses.empty()) loss += uniform.losses[row].kl / static_cast<double>(rows.size());
      if (std::isfinite(loss)) worst = std::max(worst, loss);
    }
    std::vector<Point> points;
    for (const Trial& trial : study.trials()) {
      if (trial.part != Part::kEvaluation || !trial.measurement) continue;
      const double loss = 1 + std::log10(std::clamp(trial.measurement->losses.kl / worst, 1e-4, 1.0)) / 4;
      points.push_back({static_cast<double>(trial.measurement->size_bytes) / size, loss});
      if (by_latency) points.back().push_back(space.latency_of(trial.plan) / time);
    }
    return hypervolume(points, Point(by_latency ? 3 : 2, 1.0));
  }

  std::string name_;
  EvaluationData all_;
  SearchSpace space_;
  std::unique_ptr<PredictedLatencies> latencies_;
  std::unordered_map<std::string, Made> made_;
  std::unordered_map<std::string, double> sizes_;
};

// --- Networks

// Those of the examples and of the generator are always there; the cases where they are.
std::vector<std::pair<std::string, TuneOptions>> networks(bool unseen, const TemporaryFolder& folder) {
  const fs::path source = SEQTO_SOURCE_DIR, cases = SEQTO_CASES_DIR;
  const fs::path digits = source / "examples" / "digits";
  std::vector<std::string> names{"resnet20", "squeezenet11", "mobilenetv2", "shufflenetv2_x05", "vit_pgd"};
  if (unseen) names.clear();
  for (const char* name : {"resnet8", "dscnn_kws", "mobilenet_v1_025", "tiny_encoder", "tiny_lm"})
    names.push_back(name);
  std::vector<std::pair<std::string, TuneOptions>> result;
  for (const GeneratedNetwork& g : generated_networks()) {
    const fs::path file = folder.path / (std::string(g.name) + ".onnx");
    write_generated(g, digits / "digits.npz", file);
    result.emplace_back(g.name, options_for(file, digits / "digits.npz"));
  }
  result.emplace_back("digits", options_for(digits / "model.onnx", digits / "digits.npz"));
  for (const std::string& name : names)
    if (fs::exists(cases / name)) result.emplace_back(name, case_options(cases / name));
  if (const char* wanted = std::getenv("SEQTO_BENCH_CASE"))
    std::erase_if(result, [&](const auto& net) {
      return ("," + std::string(wanted) + ",").find("," + net.first + ",") == std::string::npos;
    });
  return result;
}

// --- Tables

std::string strategies_table() {
  std::vector<std::string> strategies{"chain", "dynamic_program"};
#ifdef SEQTO_HAS_CBC
  strategies.emplace_back("ilp");
#endif
  if (const char* wanted = std::getenv("SEQTO_BENCH_STRATEGIES")) {
    strategies.clear();
    std::stringstream names(wanted);
    for (std::string name; std::getline(names, name, ',');) strategies.push_back(name);
  }
  const TemporaryFolder folder;
  std::map<std::tuple<std::string, bool, size_t>, double> budgets;
  std::string table =
      "| network | groups | objectives | strategy | box | least | most | plans | samples "
      "|\n|---|---|---|---|---|---|---|---|---|\n";
  std::cout << table << std::flush;
  for (const auto& [name, options] : networks(false, folder)) {
    Network network(name, options);
    for (bool by_latency : {false, true}) {
      if (by_latency && !network.has_latencies()) continue;
      for (const std::string& strategy : strategies) {
        Found sum;
        std::vector<double> shares;
        for (size_t split = 0; split < kSplits; ++split) {
          // As many plans for each: what chain takes by itself.
          const int64_t evaluations =
              strategy == "chain" ? 0 : static_cast<int64_t>(budgets[{name, by_latency, split}]);
          const Found found = network.run(strategy, by_latency, split, {}, evaluations);
          if (strategy == "chain") budgets[{name, by_latency, split}] = found.plans;
          sum.plans += found.plans / kSplits, sum.samples += found.samples / kSplits;
          shares.push_back(found.share);
        }
        const std::string line =
            fmt::format("| {} | {} | {} | {} | {:.4f} | {:.4f} | {:.4f} | {:.0f} | {:.0f} |\n", name, network.groups(),
                        by_latency ? "kl, size, latency" : "kl, size", strategy,
                        std::accumulate(shares.begin(), shares.end(), 0.0) / kSplits, std::ranges::min(shares),
                        std::ranges::max(shares), sum.plans, sum.samples);
        std::cout << line << std::flush;
        table += line;
      }
    }
  }
  return table;
}

// Each constant beside its default, on all networks: by how many thousandths of the box fronts change on average and
// at worst, and how many samples are run for each that are run by default.
std::string ablation_table() {
  const TemporaryFolder folder;
  struct Row {
    std::string name;
    double value;
    std::map<bool, std::vector<double>> share, samples;  // by whether latency is an objective; one for each network
    std::vector<double> error;
  };
  std::vector<Row> rows;
  const char* wanted = std::getenv("SEQTO_BENCH_CONSTANT");
  std::vector<TuningConstant> constants = tuning_constants();
  if (wanted) std::erase_if(constants, [&](const TuningConstant& constant) { return constant.name != wanted; });
  for (const TuningConstant& constant : constants)
    for (double value : constant.others) rows.push_back({std::string(constant.name), value, {}, {}, {}});
  for (const auto& [name, options] : networks(true, folder)) {
    Network network(name, options);
    const auto all = [&](bool by_latency, const SearchTuning& tuning) {
      Found sum;
      for (size_t split = 0; split < kSplits; ++split) {
        const Found found = network.run("chain", by_latency, split, tuning);
        sum.share += found.share / kSplits, sum.samples += found.samples;
      }
      return sum;
    };
    std::map<bool, Found> usual;
    for (bool by_latency : {false, true})
      if (!by_latency || network.has_latencies()) usual[by_latency] = all(by_latency, {});
    const double error = network.latency_error({});
    for (size_t i = 0; i < rows.size(); ++i) {
      const TuningConstant& constant = constants[i / 2];
      SearchTuning tuning;
      tuning.*constant.value = rows[i].value;
      if (constant.of_latencies) {
        rows[i].error.push_back(100 * (network.latency_error(tuning) - error));
        continue;
      }
      for (const auto& [by_latency, by_default] : usual) {
        const Found found = all(by_latency, tuning);
        rows[i].share[by_latency].push_back(1e3 * (found.share - by_default.share));
        rows[i].samples[by_latency].push_back(found.samples / by_default.samples);
      }
      std::cerr << fmt::format("{} {} {}: {:.2f} {:.2f}\n", name, rows[i].name, rows[i].value,
                               rows[i].share[false].back(),
                               rows[i].share.contains(true) ? rows[i].share[true].back() : 0);
    }
    std::cerr << fmt::format("{}: {} plans, latencies off by {:.1f} %\n", name, network.plans(), 100 * error);
  }
  const auto mean_of = [](const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(std::max<size_t>(1, values.size()));
  };
  const auto least = [](const std::vector<double>& values) { return values.empty() ? 0 : std::ranges::min(values); };
  std::string table =
      "| constant | default | set to | box, size | at worst | samples | box, latency | at worst | samples |\n"
      "|---|---|---|---|---|---|---|---|---|\n";
  const SearchTuning usual;
  for (size_t i = 0; i < rows.size(); ++i) {
    Row& row = rows[i];
    const std::string first =
        fmt::format("| {} | {:.3g} | {:.3g} |", row.name, usual.*constants[i / 2].value, row.value);
    if (!row.error.empty())
      table += fmt::format("{} latencies off by {:+.2f} % | | | | | |\n", first, mean_of(row.error));
    else
      table += fmt::format("{} {:+.2f} | {:+.2f} | {:.2f} | {:+.2f} | {:+.2f} | {:.2f} |\n", first,
                           mean_of(row.share[false]), least(row.share[false]), mean_of(row.samples[false]),
                           mean_of(row.share[true]), least(row.share[true]), mean_of(row.samples[true]));
  }
  std::cout << table << std::flush;
  return table;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[16];
  std::strftime(text, sizeof(text), "%Y-%m-%d", std::gmtime(&now));
  return text;
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(": ") + 2);
  return "unknown processor";
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> flags(argv + 1, argv + argc);
  const auto has = [&](const char* flag) { return std::ranges::find(flags, flag) != flags.end(); };
  const std::string name = has("--ablate") ? "search_ablation" : "search";
  const std::string table = has("--ablate") ? ablation_table() : strategies_table();
  if (!has("--write")) return 0;
  const fs::path folder = fs::path(SEQTO_SOURCE_DIR) / "bench" / "results";
  fs::create_directories(folder);
  std::ofstream(folder / (name + ".md")) << fmt::format(
      "# {}\n\nWritten by `./dev bench search{} --write` on {}; bench/search.cc says what the columns are.\n"
      "Machine: {}, {} cores. Networks: those of the rows, or of bench/search.cc where the rows are means.\n\n{}",
      name, has("--ablate") ? " --ablate" : "", today(), cpu_model(), std::thread::hardware_concurrency(), table);
}
