// Room: orchestrator. How long a plan is expected to take a sample, without running it.
//
// The time of a graph is the sum over its sequential parts: each group's share, as the runtime's own profile of the
// uniform plans tells it, plus a conversion for every tensor that passes between static int8 and anything else. What
// the shares are worth on the whole is fitted to latencies that were measured.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "seqto/runner.h"
#include "seqto/search.h"

namespace seqto::internal {

class LatencyModel {
 public:
  // A uniform plan of each scheme that the groups offer, and the float model, are profiled on `inputs`.
  // Nothing where the runner cannot tell what its nodes cost.
  static std::optional<LatencyModel> profiled(const Model& model, const std::vector<SearchGroup>& groups,
                                              const std::function<Model(const Plan&)>& candidate, Runner& runner,
                                              std::span<const Tensor> inputs);

  double predict(const Plan& plan) const;  // nanoseconds a sample

  struct Measured {
    Plan plan;
    double ns;
  };
  // Fits the weights of float time, int8 time, conversions and the constant part.
  void fit(std::span<const Measured> measured);
  // Mean of |predicted - measured| / measured, each plan predicted by a model that was fitted to the others.
  double cross_validated_error(std::span<const Measured> measured) const;

  std::string to_json() const;  // one line
  static LatencyModel from_json(const std::string& text, const Model& model, const std::vector<SearchGroup>& groups);

 private:
  static constexpr size_t kTerms = 4;  // time in groups that compute in float, in int8; conversions; the rest
  using Terms = std::array<double, kTerms>;

  LatencyModel(const Model& model, const std::vector<SearchGroup>& groups);
  Terms terms(const Plan& plan) const;

  // A tensor between two groups.
  struct Edge {
    size_t from, to;
    double elements;
  };
  std::vector<SearchGroup> groups_;
  std::vector<Edge> edges_;
  std::map<Scheme, std::vector<double>> times_;  // ns of each group in the scheme's uniform plan
  double rest_ = 0;                              // ns of what belongs to no group, in the float model
  double conversion_ = 0;                        // ns for an element that passes between int8 and float
  Terms weights_{1, 1, 1, 1};
};

}  // namespace seqto::internal
