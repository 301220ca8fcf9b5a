// Opens a data set of whatever kind lies at a path, with what exporters put beside the model to read it by.
#include "seqto/dataset.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/files.h"
#include "base/hash.h"
#include "data/boxes.h"
#include "data/datasets.h"
#include "data/shapes.h"
#include "data/targets.h"
#include "data/token_inputs.h"
#include "seqto/error.h"
#include "seqto/positions.h"

namespace seqto {
namespace {

namespace fs = std::filesystem;

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
  if (!options.text.tokenizer.empty() && !arrays) return internal::open_text(path, inputs, options);
  const bool folder = std::filesystem::is_directory(path);
  if (folder && internal::holds_test_data(path)) return internal::open_test_data(path, inputs, options);
  if ((!folder || internal::reads_ids(inputs)) && internal::holds_text(path))
    return internal::open_text(path, inputs, options);
  if (!folder) return internal::open_arrays(path, inputs, options);
  return internal::open_images(path, inputs, options);
}

// The inputs as they would be for one item: 1 where their batch is `batch`.
std::vector<ValueInfo> for_one_item(std::span<const ValueInfo> inputs, int64_t batch) {
  std::vector<ValueInfo> result(inputs.begin(), inputs.end());
  for (ValueInfo& input : result)
    if (const auto axis = internal::batch_axis(input); axis && input.shape && (*input.shape)[*axis].value == batch)
      (*input.shape)[*axis].value = 1;
  return result;
}

// One behind the other along the axis.
Tensor joined(std::span<const Sample> items, size_t input, size_t axis) {
  const Tensor& first = items[0].inputs[input];
  size_t count = 0;
  for (const Sample& item : items) {
    const Tensor& tensor = item.inputs[input];
    if (tensor.dims() != first.dims())
      throw Error(
          Code::kInvalidInput,
          fmt::format("[data] {} {} and {} {} found; one shape for all items of a fixed batch expected", items[0].name,
                      internal::shape_text(first.dims()), item.name, internal::shape_text(tensor.dims())));
    count += tensor.bytes().size();
  }
  const std::shared_ptr<std::byte[]> owner(new std::byte[count]);
  std::byte* end = owner.get();
  std::vector<int64_t> dims = first.dims();
  size_t parts = 1;  // of each item, that lie apart
  for (size_t before = 0; before < axis; ++before) parts *= static_cast<size_t>(dims[before]);
  const size_t bytes = first.bytes().size() / parts;
  for (size_t part = 0; part < parts; ++part)
    for (const Sample& item : items)
      end = std::ranges::copy(item.inputs[input].bytes().subspan(part * bytes, bytes), end).out;
  dims[axis] *= std::ssize(items);
  return {first.type(), dims, owner, std::span<const std::byte>(owner.get(), count)};
}

// Samples of `batch` items in a row each; what is left at the end is dropped. What is known of the single items
// (labels, targets, boxes, texts) is not passed on.
class Batches : public Dataset {
 public:
  Batches(std::unique_ptr<Dataset> data, std::span<const ValueInfo> inputs, int64_t batch)
      : data_(std::move(data)), batch_(batch) {
    for (const ValueInfo& input : inputs) axes_.push_back(internal::batch_axis(input));
    if (size() == 0)
      throw Error(Code::kInvalidInput,
                  fmt::format("[data] samples: {} found; {} or more expected, the fixed batch of the model",
                              data_->size(), batch_));
  }

  int64_t batch() const { return batch_; }
  int64_t size() const override { return data_->size() / batch_; }
  bool has_labels() const override { return false; }
  bool is_random() const override { return data_->is_random(); }
  std::string fingerprint() const override {
    return sha256_hex(fmt::format("batches of {} {}\n", batch_, data_->fingerprint()));
  }

  Sample read(int64_t index) const override {
    std::vector<Sample> items;
    for (int64_t i = index * batch_; i < (index + 1) * batch_; ++i) items.push_back(data_->read(i));
    Sample sample{.name = fmt::format("{} to {}", items.front().name, items.back().name),
                  .position = index,
                  .source = items.front().source};
    for (size_t input = 0; input < items[0].inputs.size(); ++input) {
      const Tensor& one = items[0].inputs[input];
      const auto axis = axes_[input];
      sample.inputs.push_back(axis && *axis < one.dims().size() ? joined(items, input, *axis) : one);
    }
    return sample;
  }

 private:
  std::unique_ptr<Dataset> data_;
  int64_t batch_;
  std::vector<std::optional<size_t>> axes_;  // of the inputs' batches
};

std::unique_ptr<Dataset> open_items(const std::filesystem::path& path, std::span<const ValueInfo> inputs,
                                    const DatasetOptions& options) {
  const std::vector<ValueInfo> open = internal::inputs_from_data(inputs, options);
  auto data = internal::with_targets(open_source(path, open, options), path, open, options);
  return with_positions(internal::fill_inputs(std::move(data), inputs, options), inputs);
}

bool has_own(const AudioWindows& w) { return w.log_mel || w.normalize; }

bool is_cut(const AudioWindows& w) { return w.window > 0 || w.hop > 0 || w.lead > 0; }

bool holds_images(const fs::path& data) {
  return fs::is_directory(data) && !internal::holds_test_data(data) && !internal::holds_text(data);
}

}  // namespace

namespace internal {

int64_t items_in_sample(const Dataset& data) {
  const auto* batches = dynamic_cast<const Batches*>(&data);
  return batches ? batches->batch() : 1;
}

fs::path file_beside(const fs::path& model, const char* name) {
  const fs::path folder = fs::absolute(model).parent_path();
  for (const fs::path& at : {folder, folder.filename() == "onnx" ? folder.parent_path() : folder})
    if (std::error_code none; fs::is_regular_file(at / name, none)) return at / name;
  return {};
}

void copy_files_beside(const fs::path& model, const fs::path& folder) {
  for (const char* name : kFilesBeside) {
    const fs::path from = file_beside(model, name), to = folder / name;
    if (!from.empty() && !fs::exists(to)) write_file_atomic(to, read_file(from));
  }
}

}  // namespace internal

std::unique_ptr<Dataset> open_dataset(const std::filesystem::path& path, std::span<const ValueInfo> inputs,
                                      const DatasetOptions& options) {
  if (inputs.empty()) {
    throw Error(Code::kInvalidInput, "[data] a model without inputs found; at least one input to fill expected");
  }
  if (const auto text = std::ranges::find(inputs, DataType::kString, &ValueInfo::type); text != inputs.end())
    throw Error(Code::kInvalidInput,
                fmt::format("[data] model input '{}' of strings found; numbers expected; export the model without the "
                            "part that reads strings, and give it the numbers that this part makes of them",
                            text->name));
  std::vector<ValueInfo> sized(inputs.begin(), inputs.end());
  set_dimensions(sized, options.dims);
  try {
    return open_items(path, sized, options);
  } catch (const internal::FixedBatch& fixed) {
    // States are carried from one item to the next, and what is known of each item would be lost.
    if (!options.states.empty() || !options.labels.empty()) throw;
    return std::make_unique<Batches>(open_items(path, for_one_item(sized, fixed.batch), options), sized, fixed.batch);
  }
}

DatasetOptions with_files_beside(const fs::path& model, const fs::path& data, DatasetOptions options, const Env& env) {
  if (!fs::is_regular_file(model) || data == "random" || !fs::exists(data)) return options;  // of a hub, not there
  const bool sound = internal::holds_audio(data);  // beside which its transcripts may lie
  if (!sound && options.text.tokenizer.empty() && internal::holds_text(data)) {
    options.text.tokenizer = internal::file_beside(model, "tokenizer.json").string();
    if (!options.text.tokenizer.empty()) env.log(LogLevel::kInfo, "tokenizer: " + options.text.tokenizer);
    return options;
  }
  if (!options.preprocess.empty() || (sound ? has_own(options.audio) : !holds_images(data))) return options;
  const std::string file = internal::file_beside(model, "preprocessor_config.json").string();
  if (file.empty()) return options;
  try {
    if (sound) internal::with_extractor(file, options.audio);
    else load_preprocess(file);
    options.preprocess = file;
    env.log(LogLevel::kInfo, "preprocessing: " + file);
  } catch (const Error& error) {
    // Who says how sounds are cut knows what the model reads.
    if (sound && is_cut(options.audio)) {
      env.log(LogLevel::kWarning, fmt::format("{}; the windows asked for are given without it", error.what()));
      return options;
    }
    // Data that are not what the model was trained on give answers that look like any others.
    throw Error(error.code(), fmt::format("{}; or --preprocess none takes the files as they are", error.what()));
  }
  return options;
}

}  // namespace seqto
