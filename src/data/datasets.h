// The kinds of data sets behind open_dataset().
#pragma once

#include <filesystem>
#include <memory>
#include <span>

#include "seqto/dataset.h"

namespace seqto::internal {

std::unique_ptr<Dataset> open_images(const std::filesystem::path& folder, std::span<const ValueInfo> inputs,
                                     const DatasetOptions& options);
std::unique_ptr<Dataset> open_arrays(const std::filesystem::path& path, std::span<const ValueInfo> inputs,
                                     const DatasetOptions& options);

}  // namespace seqto::internal
