// Two models' answers on the same samples, and what they come to: losses and task metrics.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "seqto/env.h"
#include "seqto/metrics.h"
#include "seqto/task.h"

namespace seqto::internal {

// Where the outputs of these names stand among others.
std::vector<size_t> places(const std::vector<std::string>& wanted, const std::vector<std::string>& found);
// A model's answers in that order.
std::vector<Tensor> in_order(const std::vector<Tensor>& answers, std::span<const size_t> places);

class ScoredPair {
 public:
  // Of outputs with these names. Labels bring metrics by themselves.
  struct Names {
    std::vector<std::string> reference, candidate;
  };
  // `reference`: the path of the model that says how outputs are read, where `asked` does not.
  ScoredPair(const MetricOptions& asked, const Metrics& own, std::string reference, Names names, bool labelled);
  // Throws Error{kInvalidInput} where a first output is not float.
  void append(const Sample& sample, std::span<const Tensor> reference, std::span<const Tensor> candidate);
  // The reference's and the candidate's; sizes and latencies are not known here. Warns where the reference's score 0.
  std::pair<Measurement, Measurement> measured(const Env& env) const;
  // The one of the task.
  std::string loss() const { return reading_.task ? std::string(reading_.task->loss) : "kl"; }

 private:
  struct Side {
    Outputs outputs;
    Answers all;  // where there are metrics
  };
  void append(Side& side, const Sample& sample, std::span<const Tensor> outputs) const;

  void read_first(const Sample& sample, std::span<const Tensor> reference);

  MetricOptions asked_;
  Metrics own_, metrics_;
  std::string path_;
  bool labelled_;
  Names names_;
  Reading reading_;
  Side reference_, candidate_;
  std::vector<int64_t> labels_;
  std::vector<Origin> origins_;
  std::vector<Truth> truths_;
};

}  // namespace seqto::internal
