// Room: search/latency. How long a plan is expected to take a sample, without running it.
//
// The time of a graph is the sum over its sequential parts: each group's share, as the runtime's own profile of the
// uniform plans tells it, less what profiling costs, plus a conversion for every tensor that passes between static
// int8 and anything else. What the shares are worth on the whole, and what a group alone takes more or less in int8
// than the profile says, is fitted to latencies that were measured.
#pragma once

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
  // Needed only while a model of latencies is made.
  struct Source {
    const Model& model;
    const std::vector<SearchGroup>& groups;
    const SearchTuning& tuning;
  };
  // A uniform plan of each scheme that the groups offer, and the float model, are profiled on `inputs`.
  // Nothing where the runner cannot tell what its nodes cost.
  static std::optional<LatencyModel> profiled(const Source& source, const std::function<Model(const Plan&)>& candidate,
                                              Runner& runner, std::span<const Tensor> inputs);

  // Nanoseconds a sample. Not as measured where the plan was: searches go by differences between neighbours, which a
  // measured plan beside predicted ones would spoil.
  double predict(const Plan& plan) const;

  struct Measured {
    Plan plan;
    double ns;
  };
  // Fits to these and all before: the weights of float time, int8 time, conversions, and of each group in int8.
  void learn(std::span<const Measured> measured);
  std::optional<double> measured(const Plan& plan) const;  // nanoseconds, of a plan of the same schemes

  std::string to_json() const;  // one line
  // Throws Error{kInvalidInput} for what to_json() of a model with these groups would not write.
  static LatencyModel from_json(const std::string& text, const Source& source);

 private:
  using Schemes = std::vector<Scheme>;  // of each group

  explicit LatencyModel(const Source& source);
  Schemes schemes(const Plan& plan) const;
  Schemes uniform(Scheme scheme) const;
  double overhead(Scheme scheme) const;                        // ns that a node takes in the profile alone
  std::vector<double> features(const Schemes& schemes) const;  // what the weights are of
  std::vector<double> deviations() const;                      // of the weights, before anything was measured
  void fit();

  // A tensor between two groups.
  struct Edge {
    size_t from, to;
    double elements;
  };
  SearchTuning tuning_;
  std::vector<SearchGroup> groups_;
  std::vector<Edge> edges_;
  // Of each group in a scheme's uniform plan. A node of no group counts as one of the group that runs before it.
  struct Profile {
    std::vector<double> ns, nodes;
  };
  std::map<Scheme, Profile> profiles_;
  std::map<Scheme, double> overheads_;
  std::map<Schemes, double> measured_;  // ns
  std::vector<double> weights_;
};

}  // namespace seqto::internal
