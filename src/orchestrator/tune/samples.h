// Which samples a study takes, and from where.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "seqto/tune.h"

namespace seqto::internal {

struct Samples {
  std::unique_ptr<Dataset> data;  // all of it, one after the other where there are several
  Split split;
  std::vector<int64_t> ranking;  // for the error analysis
  // Where the data begin that the calibration samples are of.
  int64_t calibration_begin = 0;
};
// Throws Error as open_dataset() and split(), and Error{kInvalidInput} when nothing is left for the evaluation.
Samples open_samples(const TuneOptions& options, std::span<const ValueInfo> inputs);

}  // namespace seqto::internal
