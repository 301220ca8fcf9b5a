// Opens a data set of whatever kind lies at a path.
#include "seqto/dataset.h"

#include <fmt/format.h>

#include "data/boxes.h"
#include "data/datasets.h"
#include "data/positions.h"
#include "data/shapes.h"
#include "data/targets.h"
#include "seqto/error.h"

namespace seqto {
namespace {

std::unique_ptr<Dataset> open_source(const std::filesystem::path& path, std::span<const ValueInfo> inputs,
                                     const DatasetOptions& options) {
  if (path == "random") return internal::open_random(inputs, options);
  if (!std::filesystem::exists(path)) {
    throw Error(
        Code::kInvalidInput,
        fmt::format("[data] {}: nothing found there; a folder of images, a data.yaml, an .npz, an .npy, a folder "
                    "of audio, of text or of test_data_set_<n>, or the word random expected; correct the path",
                    path.string()));
  }
  if (internal::is_yolo_data(path)) return internal::open_images(path, inputs, options);
  if (internal::holds_audio(path)) return internal::open_audio(path, inputs, options);
  // Beside arrays of token ids the tokenizer is there to show them.
  const bool arrays = path.extension() == ".npz" || path.extension() == ".npy";
  if ((!options.text.tokenizer.empty() && !arrays) || path.extension() == ".txt" || path.extension() == ".md")
    return internal::open_text(path, inputs, options);
  if (!std::filesystem::is_directory(path)) return internal::open_arrays(path, inputs, options);
  if (internal::holds_test_data(path)) return internal::open_test_data(path, inputs, options);
  return internal::open_images(path, inputs, options);
}

std::unique_ptr<Dataset> open_items(const std::filesystem::path& path, std::span<const ValueInfo> inputs,
                                    const DatasetOptions& options) {
  const std::vector<ValueInfo> open = internal::inputs_from_data(inputs, options);
  auto data = internal::with_targets(open_source(path, open, options), path, open, options);
  return internal::with_positions(internal::fill_inputs(std::move(data), inputs, options), inputs);
}

}  // namespace

std::unique_ptr<Dataset> open_dataset(const std::filesystem::path& path, std::span<const ValueInfo> inputs,
                                      const DatasetOptions& options) {
  if (inputs.empty()) {
    throw Error(Code::kInvalidInput, "[data] a model without inputs found; at least one input to fill expected");
  }
  std::vector<ValueInfo> sized(inputs.begin(), inputs.end());
  set_dimensions(sized, options.dims);
  try {
    return open_items(path, sized, options);
  } catch (const internal::FixedBatch& fixed) {
    // States are carried from one item to the next, and what is known of each item would be lost.
    if (!options.states.empty() || !options.labels.empty()) throw;
    return internal::in_batches(open_items(path, internal::for_one_item(sized, fixed.batch), options), fixed.batch);
  }
}

}  // namespace seqto
