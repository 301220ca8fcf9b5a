// The kinds of data sets behind open_dataset().
#pragma once

#include <filesystem>
#include <memory>
#include <span>

#include "seqto/dataset.h"

namespace seqto::internal {

bool is_image_name(const std::filesystem::path& path);
std::unique_ptr<Dataset> open_images(const std::filesystem::path& folder, std::span<const ValueInfo> inputs,
                                     const DatasetOptions& options);
std::unique_ptr<Dataset> open_arrays(const std::filesystem::path& path, std::span<const ValueInfo> inputs,
                                     const DatasetOptions& options);

// ONNX's test data: `path` holds test_data_set_<n>, or is one of them.
bool holds_test_data(const std::filesystem::path& path);
std::unique_ptr<Dataset> open_test_data(const std::filesystem::path& path, std::span<const ValueInfo> inputs,
                                        const DatasetOptions& options);
std::unique_ptr<Dataset> open_random(std::span<const ValueInfo> inputs, const DatasetOptions& options);

// Audio files: `path` is one, or a folder that holds some.
bool holds_audio(const std::filesystem::path& path);
std::unique_ptr<Dataset> open_audio(const std::filesystem::path& path, std::span<const ValueInfo> inputs,
                                    const DatasetOptions& options);

// `windows`, and what the preprocessor_config.json of an extractor of sound asks for. Throws Error{kInvalidInput} where
// it is of another kind.
AudioWindows with_extractor(const std::string& file, AudioWindows windows);

// Text files: `path` is one, or a folder that holds some at any depth, and no images.
bool holds_text(const std::filesystem::path& path);
std::unique_ptr<Dataset> open_text(const std::filesystem::path& path, std::span<const ValueInfo> inputs,
                                   const DatasetOptions& options);

// All inputs but constants and states.
std::vector<ValueInfo> inputs_from_data(std::span<const ValueInfo> inputs, const DatasetOptions& options);
// `data` gives the inputs of inputs_from_data(); the others are put between them.
std::unique_ptr<Dataset> fill_inputs(std::unique_ptr<Dataset> data, std::span<const ValueInfo> inputs,
                                     const DatasetOptions& options);

}  // namespace seqto::internal
