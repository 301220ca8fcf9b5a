// Items of a data set for a model that takes a fixed number of them at once.
#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"
#include "data/datasets.h"
#include "data/shapes.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

Tensor joined(std::span<const Sample> items, size_t input) {
  const Tensor& first = items[0].inputs[input];
  size_t count = 0;
  for (const Sample& item : items) {
    const Tensor& tensor = item.inputs[input];
    if (tensor.dims() != first.dims())
      throw Error(Code::kInvalidInput,
                  fmt::format("[data] {} {} and {} {} found; one shape for all items of a fixed batch expected",
                              items[0].name, shape_text(first.dims()), item.name, shape_text(tensor.dims())));
    count += tensor.bytes().size();
  }
  const std::shared_ptr<std::byte[]> owner(new std::byte[count]);
  std::byte* end = owner.get();
  for (const Sample& item : items) end = std::ranges::copy(item.inputs[input].bytes(), end).out;
  std::vector<int64_t> dims = first.dims();
  dims.front() *= std::ssize(items);
  return {first.type(), dims, owner, std::span<const std::byte>(owner.get(), count)};
}

class Batches : public Dataset {
 public:
  Batches(std::unique_ptr<Dataset> data, int64_t batch) : data_(std::move(data)), batch_(batch) {
    if (size() == 0)
      throw Error(Code::kInvalidInput,
                  fmt::format("[data] samples: {} found; {} or more expected, the fixed batch of the model",
                              data_->size(), batch_));
  }

  int64_t size() const override { return data_->size() / batch_; }
  bool has_labels() const override { return false; }
  bool is_random() const override { return data_->is_random(); }
  std::string fingerprint() const override {
    return sha256_hex(fmt::format("batches of {} {}\n", batch_, data_->fingerprint()));
  }

  Sample read(int64_t index) const override {
    std::vector<Sample> items;
    for (int64_t i = index * batch_; i < (index + 1) * batch_; ++i) items.push_back(data_->read(i));
    Sample sample{.name = fmt::format("{} to {}", items.front().name, items.back().name), .position = index};
    for (size_t input = 0; input < items[0].inputs.size(); ++input) {
      const Tensor& one = items[0].inputs[input];
      sample.inputs.push_back(one.dims().empty() ? one : joined(items, input));
    }
    return sample;
  }

 private:
  std::unique_ptr<Dataset> data_;
  int64_t batch_;
};

}  // namespace

std::vector<ValueInfo> for_one_item(std::span<const ValueInfo> inputs, int64_t batch) {
  std::vector<ValueInfo> result(inputs.begin(), inputs.end());
  for (ValueInfo& input : result)
    if (input.shape && !input.shape->empty() && input.shape->front().value == batch) input.shape->front().value = 1;
  return result;
}

std::unique_ptr<Dataset> in_batches(std::unique_ptr<Dataset> data, int64_t batch) {
  return std::make_unique<Batches>(std::move(data), batch);
}

}  // namespace seqto::internal
