#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <set>
#include <vector>

#include "search/strategies/archive.h"
#include "search/strategies/finalists.h"
#include "search/strategies/knapsack.h"
#include "search/strategies/loss_model.h"
#include "search/strategies/moves.h"
#include "search/strategies/strategies.h"
#include "seqto/improve.h"

namespace seqto {
namespace {

using namespace internal;

// What is still to be measured follows from the study alone, step after step.
class Chain : public Strategy {
 public:
  Chain(const SearchSpace& space, const StrategyOptions& options)
      : space_(space), options_(options), assignments_(space_), archive_(space_, options) {}

  std::vector<Proposal> next(const Study& study, bool wrap_up) override {
    if (space_.groups.empty()) return {};
    archive_.update(study);
    once_ = study.header().search_samples == 0;
    if (once_) return once(study, wrap_up);
    if (wrap_up) return finish();
    for (auto step : {&Chain::uniform, &Chain::one_in, &Chain::chain, &Chain::fill_bound, &Chain::confirm, &Chain::move,
                      &Chain::finish})
      if (std::vector<Proposal> proposals = (this->*step)(); !proposals.empty()) return proposals;
    return {};
  }

  int64_t expected() const override {
    if (once_) return options_.front;
    return budget() + static_cast<int64_t>(assignments_.schemes().size()) + options_.front;
  }

 private:
  // With latency the plans that matter differ by little: all samples are worth their time there.
  bool races() const { return options_.racing && !archive_.by_latency(); }

  int64_t budget() const {
    if (options_.evaluations > 0) return options_.evaluations;
    return std::ssize(one_in_choices()) +
           static_cast<int64_t>(tuning_.moves * static_cast<double>(assignments_.groups()));
  }

  size_t batch() const { return static_cast<size_t>(tuning_.batch); }

  // Whether all fit into the caller's limit, beside so many trials that are to come; the last ones that do not are left
  // out. What fills a bound of the size comes on top.
  bool hold_limit(std::vector<Proposal>& proposals, int64_t to_come = 0) const {
    if (options_.evaluations <= 0) return true;
    int64_t left = options_.evaluations - to_come - archive_.evaluations();
    return std::erase_if(proposals, [&](const Proposal& p) { return p.step != kBoundStep && left-- <= 0; }) == 0;
  }

  // What the uniform and the one-in plans leave of the caller's limit.
  int64_t left_for_chain() const {
    const auto known = std::ranges::count_if(archive_.entries(), [](const Entry& e) {
      return e.search && (e.step == kUniformStep || e.step == kOneInStep);
    });
    return std::max<int64_t>(0, options_.evaluations - known);
  }

  // Where it is not measured yet.
  void add(std::vector<Proposal>& proposals, const Assignment& assignment, Part part, const std::string& step) const {
    if (!archive_.measured(assignment, part)) proposals.push_back({assignments_.plan(assignment), {}, part, step});
  }

  // One scheme everywhere: a front from the first seconds on.
  std::vector<Proposal> uniform() {
    // If there is time for one alone, that which saves most of the bytes and loses next to nothing.
    std::vector<DetailedScheme> schemes = assignments_.schemes();
    std::ranges::stable_partition(schemes, [](const DetailedScheme& s) { return s.scheme == Scheme::kInt8Weights; });
    std::vector<Proposal> proposals;
    for (Part part : {Part::kEvaluation, Part::kSearch})
      for (const DetailedScheme& scheme : schemes) add(proposals, assignments_.uniform(scheme), part, kUniformStep);
    return proposals;
  }

  // Where there is time to measure each plan once alone, for the report: the uniform plans, then those along the chain
  // of what these lose, taken to be lost evenly.
  std::vector<Proposal> once(const Study& study, bool wrap_up) {
    const auto is_late = [this](const DetailedScheme& scheme) { return comes_late(scheme); };
    const auto is_weights = [](const DetailedScheme& scheme) { return is_weight_only(scheme.scheme); };
    std::vector<DetailedScheme> schemes = assignments_.schemes();
    // They lose least, and mixtures are made of them.
    std::ranges::stable_partition(schemes, is_weights);
    const auto late = std::ranges::stable_partition(schemes, std::not_fn(is_late));
    std::vector<Proposal> proposals;
    for (auto scheme = schemes.begin(); scheme != late.begin(); ++scheme) add_once(proposals, *scheme, study);
    if (!proposals.empty() || wrap_up) return proposals;
    constexpr std::ptrdiff_t kMixtures = 3;  // the middle of the chain and its quarters
    std::vector<Proposal> mixtures = on_chain(Part::kEvaluation);
    const auto seen = std::ranges::count(archive_.entries(), kChainStep, &Entry::step);
    const auto first = std::clamp<std::ptrdiff_t>(kMixtures - seen, 0, std::ssize(mixtures));
    std::ranges::copy_n(mixtures.begin(), first, std::back_inserter(proposals));
    for (const DetailedScheme& scheme : late) add_once(proposals, scheme, study);
    std::ranges::copy(mixtures.begin() + first, mixtures.end(), std::back_inserter(proposals));
    const auto measured = std::ranges::count_if(archive_.entries(), [](const Entry& e) { return !e.step.empty(); });
    const auto left = static_cast<size_t>(std::max<int64_t>(0, options_.front - measured));
    if (proposals.size() > left) proposals.resize(left);
    return proposals;
  }

  // Static layers, where they may as well be quantized while they run: as small, they lose more. Not mixed with others.
  bool comes_late(const DetailedScheme& scheme) const {
    const std::vector<DetailedScheme> schemes = assignments_.schemes();
    return is_static(scheme.scheme) && std::ranges::count(schemes, Scheme::kInt8Dynamic, &DetailedScheme::scheme) > 0;
  }

  // None that is no smaller than the float model's file.
  void add_once(std::vector<Proposal>& proposals, const DetailedScheme& scheme, const Study& study) const {
    const Assignment uniform = assignments_.uniform(scheme);
    if (space_.size_of(assignments_.plan(uniform)) < study.header().model_size_bytes)
      add(proposals, uniform, Part::kEvaluation, kUniformStep);
  }

  // Groups and their choices. A scheme that loses next to nothing everywhere needs no look at single groups.
  std::vector<std::pair<size_t, int>> one_in_choices() const {
    const bool harmless = uniform_loss(archive_, assignments_, Scheme::kFloat16) <
                          tuning_.harmless * mildest_loss(archive_, assignments_);
    std::vector<std::pair<size_t, int>> choices;
    for (size_t g = 0; g < assignments_.groups(); ++g)
      for (int c = 1; c < static_cast<int>(assignments_.choices(g)); ++c)
        if (!harmless || assignments_.scheme(g, c) != Scheme::kFloat16) choices.emplace_back(g, c);
    return choices;
  }

  // Those that save most first.
  std::vector<Assignment> one_in_plans() const {
    std::vector<std::pair<size_t, int>> choices = one_in_choices();
    const ChoiceTable cost = assignments_.costs(archive_.by_latency() && archive_.by_size() ? 0.5
                                                : archive_.by_size()                        ? 1
                                                                                            : 0);
    std::ranges::stable_sort(choices, {}, [&](const auto& c) { return cost[c.first][c.second]; });
    // Half of a small budget: losses that were not looked at are shares of their scheme's uniform plan.
    if (options_.evaluations > 0) {
      const auto most = static_cast<size_t>(std::max<int64_t>(1, options_.evaluations / 2));
      if (choices.size() > most) choices.resize(most);
    }
    std::vector<Assignment> result;
    for (const auto& [group, choice] : choices) (result.emplace_back(assignments_.all_float()))[group] = choice;
    return result;
  }

  std::vector<Proposal> one_in() {
    std::vector<Proposal> proposals;
    for (const Assignment& assignment : one_in_plans()) add(proposals, assignment, Part::kSearch, kOneInStep);
    hold_limit(proposals);
    if (options_.time_spent) {
      constexpr double kOneInShare = 0.5;  // of a limited time; the rest is for plans made of what was learned
      if (options_.time_spent() > kOneInShare) return {};
      if (proposals.size() > batch()) proposals.resize(batch());
    }
    if (races()) archive_.race(proposals);
    return proposals;
  }

  // The chain for each mixture of costs; plans evenly along it, so that its steep end, where each step is a small group
  // that loses much, is measured as closely as its flat one.
  std::vector<Proposal> chain() {
    const std::vector<Proposal> all = on_chain(Part::kSearch);
    const int64_t confirmations = left_for_chain() / 4;
    std::vector<Proposal> proposals = all;
    if (!hold_limit(proposals, confirmations)) hold_limit(proposals = halved(all), confirmations);
    if (races()) archive_.race(proposals);
    return proposals;
  }

  std::vector<Proposal> on_chain(Part part) {
    // Moves go on from it; latencies may have been corrected since, and with them the chain.
    if (std::ranges::any_of(archive_.entries(), [](const Entry& e) { return e.step == kSwapStep; })) return {};
    if (chain_.empty()) {
      const ChoiceTable losses = expected_losses(archive_, assignments_);
      const std::vector<double> mixtures = archive_.mixtures();
      const size_t left = static_cast<size_t>(
          options_.evaluations > 0 ? left_for_chain() : std::max<int64_t>(0, budget() - archive_.evaluations()));
      const size_t each = std::max<size_t>(4, std::min(left / 2, 2 * assignments_.groups()) / mixtures.size());
      for (double share : mixtures) {
        ChoiceTable table = assignments_.costs(share);
        if (part == Part::kEvaluation) rule_out_late(table);
        const std::vector<Assignment> all = chain_of(losses, table);
        for (size_t place : spread(all, losses, table, each)) chain_.push_back(all[place]);
        if (archive_.bounded()) add_last_within_bounds(all);
      }
    }
    std::vector<Proposal> proposals;
    std::set<Assignment> seen;
    std::vector<Assignment> plans = options_.time_spent ? halved(chain_) : chain_;
    if (part == Part::kEvaluation && archive_.bounded()) plans.insert(plans.begin(), chain_.back());
    for (const Assignment& assignment : plans)
      if (assignment != assignments_.all_float() && seen.insert(assignment).second)
        add(proposals, assignment, part, kChainStep);
    return proposals;
  }

  // They were not measured yet, so nothing is known of what they lose.
  void rule_out_late(ChoiceTable& costs) const {
    for (size_t g = 0; g < costs.size(); ++g)
      for (size_t c = 1; c < costs[g].size(); ++c)
        if (comes_late(assignments_.scheme(g, static_cast<int>(c))))
          costs[g][c] = std::numeric_limits<double>::infinity();
  }

  // The middle first, then the quarters, the eighths: wherever the time ends, what was measured is spread.
  template <class T>
  static std::vector<T> halved(const std::vector<T>& plans) {
    std::vector<T> result;
    const size_t whole = std::bit_ceil(std::max<size_t>(1, plans.size()));
    for (size_t step = whole / 2; step > 0; step /= 2)
      for (size_t place = step; place < plans.size(); place += 2 * step) result.push_back(plans[place]);
    if (!plans.empty()) result.push_back(plans.front());
    return result;
  }

  // Of the chain's plans that are expected to be within the bounds, the one of least loss.
  void add_last_within_bounds(const std::vector<Assignment>& chain) {
    const auto whole = static_cast<double>(space_.size_of({}));
    const auto is_within = [&](const Assignment& a) {
      return archive_.is_within(whole - total(assignments_.bytes_saved(), a),
                                archive_.by_latency() ? space_.latency_of(assignments_.plan(a)) : 0);
    };
    const auto last = std::find_if(chain.rbegin(), chain.rend(), is_within);
    if (last != chain.rend()) chain_.push_back(*last);
  }

  // A chain's plans are as far apart as its steps are large. Within a bound of the size, a batch of those that are
  // expected to lose least and leave next to nothing of it; also where a study goes on with another bound.
  std::vector<Proposal> fill_bound() {
    if (!std::isfinite(options_.max_size_bytes) || !archive_.by_size() || archive_.by_latency()) return {};
    std::set<Assignment> plans;
    for (const auto losses : {expected_losses, unscaled_losses})
      add_within_bound(losses(archive_, assignments_), plans);
    std::vector<Proposal> proposals;
    for (const Assignment& plan : plans) add(proposals, plan, Part::kSearch, kBoundStep);
    return proposals;
  }

  // Half a batch of them by these losses.
  void add_within_bound(const ChoiceTable& losses, std::set<Assignment>& plans) {
    constexpr int64_t kSteps = 2000;  // sizes add up but for little: the first plans may still be too large
    const std::vector<double> shares = shares_from(assignments_.share_to_save(options_.max_size_bytes), kSteps);
    std::set<Assignment> found;
    for (const Assignment& plan : least_losses(losses, assignments_.costs(1), shares)) {
      if (found.size() >= batch() / 2) break;
      if (static_cast<double>(space_.size_of(assignments_.plan(plan))) <= options_.max_size_bytes) found.insert(plan);
    }
    found.erase(assignments_.all_float());
    plans.merge(found);
  }

  // Places along a chain, which begins at the cheapest plan: half of them evenly by steps, half by cost; and both ends.
  // Of plans that are expected to lose next to nothing, only the cheapest.
  std::set<size_t> spread(const std::vector<Assignment>& chain, const ChoiceTable& losses, const ChoiceTable& cost,
                          size_t count) const {
    // Measured by the mildest scheme: one that ruins the model must not hide what lies between the others and float.
    const double mildest = mildest_loss(archive_, assignments_);
    const double nothing = std::isfinite(mildest) ? tuning_.chain_end * mildest : 0;
    size_t end = 0;
    while (end + 1 < chain.size() && total(losses, chain[end]) > nothing) ++end;
    std::set<size_t> places{0, end};
    const double first = total(cost, chain.front()), last = total(cost, chain[end]);
    const size_t half = std::max<size_t>(1, count / 2);
    size_t next = 0;
    for (size_t i = 0; i < half; ++i) {
      const double share = static_cast<double>(i + 1) / static_cast<double>(half + 1);
      places.insert(static_cast<size_t>(share * static_cast<double>(end)));
      while (next < end && total(cost, chain[next]) < first + share * (last - first)) ++next;
      places.insert(next);
    }
    return places;
  }

  // Fresh samples for whatever looks best on the old ones: plans chosen because they lose little there lose more
  // elsewhere.
  std::vector<Proposal> confirm() {
    std::vector<Proposal> proposals;
    for (const Entry* entry : archive_.search_front())
      add(proposals, entry->assignment, Part::kAcceptance, entry->step);
    hold_limit(proposals);
    // The first few tell what is lost where.
    if (races() && !archive_.race(proposals) && proposals.size() > batch()) proposals.resize(batch());
    return proposals;
  }

  std::vector<Proposal> move() {
    const int64_t left = budget() - archive_.evaluations();
    if (left <= 0) return {};
    const ChoiceTable losses = expected_losses(archive_, assignments_);
    std::vector<Proposal> proposals;
    // Of a limit of the caller's the other half confirms them.
    const size_t count = std::min(batch(), static_cast<size_t>(options_.evaluations > 0 ? (left + 1) / 2 : left));
    for (const Assignment& assignment : promising_moves(archive_, assignments_, losses, count))
      add(proposals, assignment, Part::kSearch, kSwapStep);
    if (races()) archive_.race(proposals);
    return proposals;
  }

  std::vector<Proposal> finish() {
    std::vector<Proposal> proposals;
    for (const Entry* entry : finalists(archive_, static_cast<size_t>(options_.front)))
      add(proposals, entry->assignment, Part::kEvaluation, entry->step);
    const bool any =
        std::ranges::any_of(archive_.entries(), [](const Entry& e) { return e.evaluation && !e.step.empty(); });
    if (proposals.empty() && !any) return uniform();  // the time was over before anything was looked at
    return proposals;
  }

  const SearchSpace space_;
  const StrategyOptions options_;
  const SearchTuning& tuning_ = options_.tuning;
  mutable Assignments assignments_;
  Archive archive_;
  std::vector<Assignment> chain_;
  bool once_ = false;  // whether the study has no samples to search on
};

}  // namespace

std::unique_ptr<Strategy> make_chain(const SearchSpace& space, const StrategyOptions& options) {
  return std::make_unique<Chain>(space, options);
}

}  // namespace seqto
