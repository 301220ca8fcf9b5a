// Room: quantization/improve. Whether a rewritten model is the same function still.
#pragma once

#include <optional>
#include <vector>

#include "seqto/model.h"
#include "seqto/runner.h"

namespace seqto::internal {

class SameAnswers {
 public:
  // Both outlive this.
  SameAnswers(const Model& original, const SampleRun& on) : original_(original), on_(on) {}

  // By how much the answers to a sample differ from the original's: squared difference over squares, of the float
  // output where that is largest. Nothing where rounding alone may change them: a model that chooses by comparing, or
  // draws.
  std::optional<double> difference(const Model& rewritten);
  // More than rounding explains.
  static constexpr double kOther = 1e-4;

 private:
  std::vector<Tensor> answers(const Model& model) const;

  const Model& original_;
  const SampleRun& on_;
  std::vector<Tensor> wanted_;  // empty: not run yet
};

}  // namespace seqto::internal
