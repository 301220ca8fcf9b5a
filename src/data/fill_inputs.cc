// Inputs that need no data, put between those that the data give.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/hash.h"
#include "data/convert.h"
#include "data/datasets.h"
#include "data/shapes.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

class FilledDataset : public Dataset {
 public:
  // `fixed`: an input that is the same in every sample; nothing where the data give it.
  FilledDataset(std::unique_ptr<Dataset> data, std::vector<std::optional<Tensor>> fixed)
      : data_(std::move(data)), fixed_(std::move(fixed)) {}

  int64_t size() const override { return data_->size(); }
  bool has_labels() const override { return data_->has_labels(); }
  bool is_random() const override { return data_->is_random(); }

  Sample read(int64_t index) const override {
    Sample sample = data_->read(index);
    std::vector<Tensor> given = std::move(sample.inputs);
    sample.inputs.clear();
    size_t next = 0;
    for (const auto& tensor : fixed_) sample.inputs.push_back(tensor ? *tensor : given[next++]);
    return sample;
  }

  std::string fingerprint() const override {
    std::string text = data_->fingerprint();
    for (size_t i = 0; i < fixed_.size(); ++i) {
      if (fixed_[i]) text += fmt::format("\n{}\t{}", i, element(*fixed_[i], 0));
    }
    return sha256_hex(text);
  }

 private:
  std::unique_ptr<Dataset> data_;
  std::vector<std::optional<Tensor>> fixed_;
};

Tensor constant(const ValueInfo& input, double value, std::span<const ValueInfo> inputs) {
  const std::vector<int64_t> dims = closed_shape(input, inputs);
  size_t count = 1;
  for (const int64_t dim : dims) count *= static_cast<size_t>(dim);
  return convert(Tensor::from(DataType::kDouble, dims, std::vector<double>(count, value)), input.type,
                 fmt::format("the constant input '{}'", input.name));
}

}  // namespace

std::vector<ValueInfo> inputs_from_data(std::span<const ValueInfo> inputs, const DatasetOptions& options) {
  std::vector<ValueInfo> open;
  std::vector<std::string> names;
  size_t used = 0;
  for (const ValueInfo& input : inputs) {
    names.push_back(input.name);
    if (options.constants.contains(input.name)) ++used;
    else open.push_back(input);
  }
  if (used < options.constants.size()) {
    for (const auto& [name, value] : options.constants) {
      if (std::find(names.begin(), names.end(), name) != names.end()) continue;
      throw Error(Code::kUsage, fmt::format("[data] the constant input {}={} found; one of the model's inputs {} "
                                            "expected",
                                            name, value, fmt::join(names, ", ")));
    }
  }
  if (open.empty()) {
    throw Error(Code::kUsage, "[data] a constant for every input found; at least one from the data expected");
  }
  return open;
}

std::unique_ptr<Dataset> fill_inputs(std::unique_ptr<Dataset> data, std::span<const ValueInfo> inputs,
                                     const DatasetOptions& options) {
  if (options.constants.empty()) return data;
  std::vector<std::optional<Tensor>> fixed;
  for (const ValueInfo& input : inputs) {
    const auto it = options.constants.find(input.name);
    fixed.push_back(it == options.constants.end() ? std::nullopt : std::optional(constant(input, it->second, inputs)));
  }
  return std::make_unique<FilledDataset>(std::move(data), std::move(fixed));
}

}  // namespace seqto::internal
