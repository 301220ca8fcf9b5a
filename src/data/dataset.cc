// Opens a data set of whatever kind lies at a path.
#include "seqto/dataset.h"

#include <fmt/format.h>

#include "data/datasets.h"
#include "seqto/error.h"

namespace seqto {

std::unique_ptr<Dataset> open_dataset(const std::filesystem::path& path, std::span<const ValueInfo> inputs,
                                      const DatasetOptions& options) {
  if (inputs.empty()) {
    throw Error(Code::kInvalidInput, "[data] a model without inputs found; at least one input to fill expected");
  }
  if (!std::filesystem::exists(path)) {
    throw Error(Code::kInvalidInput,
                fmt::format("[data] {}: nothing found there; a folder of images, an .npz or an .npy "
                            "expected; correct the path",
                            path.string()));
  }
  return std::filesystem::is_directory(path) ? internal::open_images(path, inputs, options)
                                             : internal::open_arrays(path, inputs, options);
}

}  // namespace seqto
