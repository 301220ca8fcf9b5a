// The kinds of data sets behind open_dataset().
#pragma once

#include <filesystem>
#include <memory>
#include <span>

#include "seqto/dataset.h"

namespace seqto::internal {

bool is_image_name(const std::filesystem::path& path);
// Whether the folder holds such a file at any depth, and no image.
bool holds_no_images_but(const std::filesystem::path& folder, bool (*is_one)(const std::filesystem::path&));
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

struct SoundExtractor {
  AudioWindows windows;
  bool masked = false;  // the model was trained with a mask of what is filled up, so only the sound is normalized
};
// `windows`, and what the preprocessor_config.json of an extractor of sound asks for. Throws Error{kInvalidInput} where
// it is of another kind.
SoundExtractor with_extractor(const std::string& file, AudioWindows windows);

// Text files: `path` is one, or a folder that holds some at any depth, and no images.
bool holds_text(const std::filesystem::path& path);
std::unique_ptr<Dataset> open_text(const std::filesystem::path& path, std::span<const ValueInfo> inputs,
                                   const DatasetOptions& options);

// All inputs but constants and states.
std::vector<ValueInfo> inputs_from_data(std::span<const ValueInfo> inputs, const DatasetOptions& options);
// `data` gives the inputs of inputs_from_data(); the others are put between them.
std::unique_ptr<Dataset> fill_inputs(std::unique_ptr<Dataset> data, std::span<const ValueInfo> inputs,
                                     const DatasetOptions& options);

// That open_dataset() makes one sample of, for a fixed batch of the model.
int64_t items_in_sample(const Dataset& data);

// What exporters put beside a model: how its inputs are made, what it is for, how it writes.
inline constexpr const char* kFilesBeside[] = {
    "config.json",    "generation_config.json", "1_Pooling/config.json",  "preprocessor_config.json",
    "tokenizer.json", "tokenizer_config.json",  "special_tokens_map.json"};
// One of them, beside the model or above its folder onnx, which holds the models alone; empty: there is none.
std::filesystem::path file_beside(const std::filesystem::path& model, const char* name);
// All of them, so that a file of the same model in `folder` is read as that one is. What is there already stays.
void copy_files_beside(const std::filesystem::path& model, const std::filesystem::path& folder);

}  // namespace seqto::internal
