// A search problem whose losses are a formula: groups of one layer each, losses that nearly add up.
#pragma once

#include <cmath>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "seqto/search.h"

namespace seqto {

class Synthetic {
 public:
  Synthetic(size_t groups, uint64_t seed, double int4_over_int8 = 4) {
    std::mt19937_64 engine(seed);
    std::lognormal_distribution<double> spread(0, 1.5);
    std::uniform_int_distribution<int64_t> bytes(1000, 100000);
    for (size_t g = 0; g < groups; ++g) {
      const std::string name = "conv" + std::to_string(100 + g);
      bytes_.push_back(bytes(engine));
      int8_.push_back(1e-3 * spread(engine));
      int4_.push_back(int8_.back() * (int4_over_int8 + 10 * spread(engine)));
      space_.groups.push_back(
          {.layers = {name},
           .choices = {{},
                       {.schemes = {{name, Scheme::kFloat16}}},
                       {.schemes = {{name, Scheme::kInt8Weights}}},
                       {.schemes = {{name, Scheme::kInt4Weights}}}},
           .schemes = {Scheme::kFloat32, Scheme::kFloat16, Scheme::kInt8Weights, Scheme::kInt4Weights}});
      space_.layers.push_back(name);
    }
    space_.size_of = [this](const Plan& plan) { return size(plan); };
  }

  const SearchSpace& space() const { return space_; }

  int64_t size(const Plan& plan) const {
    int64_t sum = 500;
    for (size_t g = 0; g < bytes_.size(); ++g) {
      const Scheme scheme = scheme_of(plan, g);
      sum += scheme == Scheme::kFloat32       ? 4 * bytes_[g]
             : scheme == Scheme::kFloat16     ? 2 * bytes_[g]
             : scheme == Scheme::kInt8Weights ? bytes_[g]
                                              : bytes_[g] / 2;
    }
    return sum;
  }

  // Neighbours in the graph make each other worse: losses do not quite add up. Each part of the data tells its own.
  double loss(const Plan& plan, Part part) const {
    double sum = 0, before = 0;
    for (size_t g = 0; g < bytes_.size(); ++g) {
      const Scheme scheme = scheme_of(plan, g);
      double own = scheme == Scheme::kInt8Weights   ? int8_[g]
                   : scheme == Scheme::kInt4Weights ? int4_[g]
                   : scheme == Scheme::kFloat16     ? 1e-8
                                                    : 0;
      own *= 1 + 0.05 * std::sin(static_cast<double>(g) + 2.0 * static_cast<double>(part));
      sum += own + 0.5 * std::sqrt(own * before);
      before = own;
    }
    return sum;
  }

  // Samples of each part. On some of them a hundred times more is lost than on others; those come first.
  static constexpr int64_t kSamples = 32;
  double loss_on(const Plan& plan, Part part, int64_t sample) const {
    double weights = 0;
    for (int64_t i = 0; i < kSamples; ++i) weights += std::exp(-0.15 * static_cast<double>(i));
    std::mt19937_64 engine(std::hash<std::string>{}(plan.hash()) + static_cast<uint64_t>(sample));
    const double own = std::lognormal_distribution<double>(0, 0.2)(engine);
    return loss(plan, part) * own * kSamples * std::exp(-0.15 * static_cast<double>(sample)) / weights;
  }

  // On every sample, or on as many as the proposal's race wants.
  Trial trial(const Proposal& proposal) const {
    Trial trial{.id = proposal.plan.hash(), .plan = proposal.plan, .part = proposal.part, .step = proposal.step};
    trial.measurement.emplace();
    trial.measurement->size_bytes = size(proposal.plan);
    std::vector<Losses> each;
    while (std::ssize(each) < kSamples) {
      each.push_back({.kl = loss_on(proposal.plan, proposal.part, std::ssize(each))});
      if (each.size() >= 4 && proposal.race && proposal.race->is_over(each, size(proposal.plan))) break;
    }
    for (const Losses& one : each) trial.measurement->samples["kl"].push_back(one.kl);
    trial.measurement->losses = mean(each);
    return trial;
  }

  // Share of the box up to the float file's size and the int8 file's loss that the reported trials dominate.
  double volume(const Study& study) const {
    Plan int8;
    for (const SearchGroup& group : space_.groups) int8.schemes[group.layers[0]] = Scheme::kInt8Weights;
    const double worst = loss(int8, Part::kEvaluation), whole = static_cast<double>(size({}));
    std::vector<Point> points;
    for (const Trial& t : study.trials())
      if (t.part == Part::kEvaluation)
        points.push_back({static_cast<double>(t.measurement->size_bytes) / whole, t.measurement->losses.kl / worst});
    return hypervolume(points, {1, 1});
  }

 private:
  Scheme scheme_of(const Plan& plan, size_t group) const {
    const auto found = plan.schemes.find(space_.layers[group]);
    return found == plan.schemes.end() ? Scheme::kFloat32 : found->second;
  }

  SearchSpace space_;
  std::vector<int64_t> bytes_;
  std::vector<double> int8_, int4_;
};

// Runs a strategy to its end; returns the number of trials.
inline size_t search(const Synthetic& problem, const std::string& strategy, const StrategyOptions& options,
                     Study& study) {
  const auto searcher = make_strategy(strategy, problem.space(), options);
  for (auto proposals = searcher->next(study); !proposals.empty(); proposals = searcher->next(study))
    for (const Proposal& proposal : proposals) study.append(problem.trial(proposal));
  return study.trials().size();
}

}  // namespace seqto
