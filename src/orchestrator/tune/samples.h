// Which samples a study takes, and from where.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "seqto/tune.h"

namespace seqto::internal {

struct Samples {
  std::shared_ptr<const Dataset> data;  // all of it, one after the other where there are several
  Split split;
  std::vector<int64_t> ranking;  // for the error analysis
  int64_t kinds = 0;             // classes that are known (Dataset::kind)
  int64_t items_in_sample = 1;   // of the data: items_in_sample()
  // Where the data begin that the calibration samples are of.
  int64_t calibration_begin = 0;
};
// What open_dataset() does for the model at hand.
using OpenData = std::function<std::unique_ptr<Dataset>(const std::filesystem::path&, const DatasetOptions&)>;
// Throws Error as `open` and split(), and Error{kInvalidInput} when nothing is left for the evaluation.
Samples open_samples(const TuneOptions& options, const OpenData& open);
// "50 samples to calibrate, 64 to search, 386 to judge; 97 classes"
std::string in_words(const Samples& samples);

}  // namespace seqto::internal
