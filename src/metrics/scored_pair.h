// Two models' answers on the same samples, and what they come to: losses and task metrics.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "seqto/metrics.h"

namespace seqto::internal {

class ScoredPair {
 public:
  // `labelled`: the samples have labels, which bring metrics by themselves. `names`: of each model's outputs.
  ScoredPair(Metrics metrics, bool labelled, std::vector<std::string> reference_names,
             std::vector<std::string> candidate_names);
  // Throws Error{kInvalidInput} where a first output is not float.
  void append(const Sample& sample, std::span<const Tensor> reference, std::span<const Tensor> candidate);
  // The reference's and the candidate's; sizes and latencies are not known here.
  std::pair<Measurement, Measurement> measured() const;
  // The one that the reference's outputs call for.
  std::string loss(const Model& reference) const {
    return default_loss(reference_.outputs, 0, gives_class_rows(reference)).name;
  }

 private:
  struct Side {
    Outputs outputs;
    Answers all;  // where there are metrics
  };
  void append(Side& side, const Sample& sample, std::span<const Tensor> outputs) const;

  Metrics metrics_;
  bool labelled_;
  Side reference_, candidate_;
  std::vector<int64_t> labels_;
  std::vector<Truth> truths_;
};

}  // namespace seqto::internal
