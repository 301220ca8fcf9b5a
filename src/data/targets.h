// What a model is to find, beside a class: numbers and boxes, added to the samples of any data set.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "seqto/dataset.h"

namespace seqto::internal {

// `data`, opened from `path`, with Sample::target and Sample::boxes: from options.labels, or targets from the array y
// that lies beside the inputs. Throws Error{kInvalidInput}.
std::unique_ptr<Dataset> with_targets(std::unique_ptr<Dataset> data, const std::filesystem::path& path,
                                      std::span<const ValueInfo> inputs, const DatasetOptions& options);

}  // namespace seqto::internal
