#include <algorithm>
#include <limits>
#include <tuple>
#include <unordered_map>

#include "search/strategies/knapsack.h"
#include "search/strategies/replay.h"
#include "search/strategies/strategies.h"
#include "search/strategies/transformer_parts.h"

namespace seqto {
namespace {

using namespace internal;

// What is known of weights without running a candidate, by group.
class Local : public Replay {
 public:
  using Replay::Replay;

 protected:
  virtual std::vector<Assignment> path() = 0;

  // `relative` by the order of Assignments::schemes().
  const std::vector<std::vector<LocalError>>& errors() {
    if (!errors_.empty()) return errors_;
    std::vector<Plan> uniform;
    for (const DetailedScheme& scheme : assignments_.schemes())
      uniform.push_back(assignments_.plan(assignments_.uniform(scheme)));
    std::unordered_map<LayerId, size_t> group_of;
    for (size_t g = 0; g < space_.groups.size(); ++g)
      for (const LayerId& layer : space_.groups[g].layers) group_of[layer] = g;
    errors_.resize(space_.groups.size());
    for (LocalError& error : space_.local_errors(uniform))
      if (const auto group = group_of.find(error.layer); group != group_of.end())
        errors_[group->second].push_back(std::move(error));
    return errors_;
  }

 private:
  void search() override {
    if (path_.empty()) path_ = path();
    walk(path_);
  }

  std::vector<std::vector<LocalError>> errors_;
  std::vector<Assignment> path_;
};

class WeightedError : public Local {
 public:
  using Local::Local;

 private:
  std::vector<Assignment> path() override {
    const std::vector<DetailedScheme> schemes = assignments_.schemes();
    const TransformerParts parts = space_.model ? transformer_parts(*space_.model) : TransformerParts();
    ChoiceTable table;
    for (size_t g = 0; g < assignments_.groups(); ++g) {
      std::vector<double>& row = table.emplace_back(assignments_.choices(g), 0.0);
      for (size_t c = 1; c < row.size(); ++c) {
        const auto scheme = std::ranges::find(schemes, assignments_.scheme(g, static_cast<int>(c))) - schemes.begin();
        for (const LocalError& error : errors()[g]) row[c] += factor(parts, error.layer, g) * error.relative[scheme];
      }
    }
    return chain_of(table, assignments_.costs(1));
  }

  // What llama.cpp multiplies the errors of a few kinds of tensors with; of a tied table by its share of the weights.
  double factor(const TransformerParts& parts, const LayerId& layer, size_t group) {
    if (layer == parts.head && !parts.has_tied_head) return 3;
    if (layer == parts.head) {
      double all = 0;
      for (const auto& row : saved()) all += std::ranges::max(row);
      const double share = all > 0 ? std::ranges::max(saved()[group]) / all : 0;
      return share <= 0.1 ? 2.5 : std::max(1.25, 2.5 * (1 - 3 * (share - 0.1)));
    }
    for (const TransformerParts::Block& block : parts.blocks) {
      if (layer == block.down) return 6;
      if (block.values.contains(layer)) return 1.25;
    }
    return 1;
  }
};

// 8-bit noise that is large makes a score small: there 8 bits help less.
double inverted_noise(const LocalError& error) {
  return 1 / (error.worst_output + std::numeric_limits<float>::epsilon());
}
double hessian_score(const LocalError& error) { return 2 * error.square * error.norm; }
double variance_score(const LocalError& error) { return error.variance * inverted_noise(error); }
double magnitude_score(const LocalError& error) { return error.magnitude * inverted_noise(error); }

class Ranked : public Local {
 public:
  using Score = double (*)(const LocalError&);
  Ranked(const SearchSpace& space, const StrategyOptions& options, Score score)
      : Local(space, options), score_(score) {}

 private:
  std::vector<Assignment> path() override {
    const std::vector<DetailedScheme> schemes = assignments_.schemes_by_bytes();
    const Assignment low = assignments_.uniform(schemes[0]),
                     high = schemes.size() > 1 ? assignments_.uniform(schemes[1]) : assignments_.all_float();
    // Embeddings and the last layer go last: NNCF leaves them as they are unless it is told otherwise (all_layers).
    const TransformerParts parts = space_.model ? transformer_parts(*space_.model) : TransformerParts();
    const auto stays = [&](const LayerId& layer) { return layer == parts.head || parts.embeddings.contains(layer); };
    std::vector<std::tuple<bool, double, size_t>> order;
    for (size_t g = 0; g < low.size(); ++g) {
      double most = 0;  // of a group the weight that needs its bits most decides
      for (const LocalError& error : errors()[g]) most = std::max(most, score_(error));
      order.emplace_back(std::ranges::any_of(space_.groups[g].layers, stays), most, g);
    }
    std::ranges::stable_sort(order);
    std::vector<Assignment> path{high};
    for (const auto& [last, score, g] : order) (path.emplace_back(path.back()))[g] = low[g];
    return path;
  }

  const Score score_;
};

}  // namespace

std::unique_ptr<Strategy> make_weighted_error(const SearchSpace& space, const StrategyOptions& options) {
  return std::make_unique<WeightedError>(space, options);
}
std::unique_ptr<Strategy> make_weight_quantization_error(const SearchSpace& space, const StrategyOptions& options) {
  return std::make_unique<Ranked>(space, options, inverted_noise);
}
std::unique_ptr<Strategy> make_hessian_input_activation(const SearchSpace& space, const StrategyOptions& options) {
  return std::make_unique<Ranked>(space, options, hessian_score);
}
std::unique_ptr<Strategy> make_mean_activation_variance(const SearchSpace& space, const StrategyOptions& options) {
  return std::make_unique<Ranked>(space, options, variance_score);
}
std::unique_ptr<Strategy> make_mean_activation_magnitude(const SearchSpace& space, const StrategyOptions& options) {
  return std::make_unique<Ranked>(space, options, magnitude_score);
}

}  // namespace seqto
