// Room: orchestrator/tune. What candidates share with the float model at their beginning is computed once.
//
// A candidate whose first changed layer lies behind a cut (cuts.h) gives the same outputs from the float model's values
// at the cut as from the model's inputs, so that only what is behind the cut has to be loaded and run.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "seqto/dataset.h"
#include "seqto/quantize.h"
#include "seqto/runner.h"

namespace seqto::internal {

class Prefixes {
 public:
  // Up to eight cuts, evenly along the graph, whose values on `samples` are no more than `bytes` in all. The first plan
  // with a suffix runs the float model on these to have them; `model`, which has names and shapes, `data` and `runner`
  // live until then.
  Prefixes(const Model& model, const Dataset& data, std::span<const int64_t> samples, Runner& runner, int64_t bytes);
  ~Prefixes();
  Prefixes(Prefixes&&) noexcept;

  struct Suffix {
    Model model;
    const Dataset* data;  // the values at the cut and those inputs that are read behind it, under the samples' indices;
                          // the Prefixes' own
  };
  // What is behind the last cut before all layers of the plan. Nothing where there is no such cut, or where the
  // candidate does not have the cut's tensor any more. Any number of threads.
  std::optional<Suffix> suffix(const Plan& plan, const Model& candidate) const;

  size_t cuts() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace seqto::internal
