#include "seqto/positions.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "data/token_inputs.h"

namespace seqto {
namespace {

constexpr size_t kNone = static_cast<size_t>(-1);

size_t named(std::span<const ValueInfo> inputs, std::string_view name) {
  const auto found = std::ranges::find(inputs, name, &ValueInfo::name);
  return found == inputs.end() ? kNone : static_cast<size_t>(found - inputs.begin());
}

// input_ids, else the only input of integers that is no mask.
size_t token_input(std::span<const ValueInfo> inputs, size_t mask) {
  if (const size_t ids = named(inputs, "input_ids"); ids != kNone) return ids;
  size_t only = kNone;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i == mask || !internal::reads_ids(inputs.subspan(i, 1))) continue;
    if (only != kNone) return kNone;
    only = i;
  }
  return only;
}

// Of one sequence: [1, positions].
bool is_sequence(const Tensor& tensor) { return tensor.dims().size() == 2 && tensor.dims()[0] == 1; }

class SequenceData : public Dataset {
 public:
  SequenceData(std::unique_ptr<Dataset> data, size_t tokens, size_t mask)
      : data_(std::move(data)), tokens_(tokens), mask_(mask) {}

  int64_t size() const override { return data_->size(); }
  bool has_labels() const override { return data_->has_labels(); }
  bool is_random() const override { return data_->is_random(); }
  SampleKind kind(int64_t index) const override { return data_->kind(index); }
  std::string fingerprint() const override { return data_->fingerprint(); }

  Sample read(int64_t index) const override {
    Sample sample = data_->read(index);
    if (mask_ != kNone) read_mask(sample);
    if (tokens_ != kNone && is_sequence(sample.inputs[tokens_])) read_tokens(sample);
    return sample;
  }

 private:
  void read_mask(Sample& sample) const {
    std::vector<char> counted = internal::counted_by(sample.inputs[mask_]);
    if (std::ranges::count(counted, 0) > 0) sample.counted = std::move(counted);
  }

  void read_tokens(Sample& sample) const {
    const Tensor& ids = sample.inputs[tokens_];
    const bool hides = std::ssize(sample.counted) == ids.element_count();
    for (int64_t i = 0; i < ids.element_count(); ++i)
      if (!hides || sample.counted[static_cast<size_t>(i)])
        sample.tokens.push_back(static_cast<int64_t>(element(ids, i)));
  }

  std::unique_ptr<Dataset> data_;
  size_t tokens_, mask_;
};

}  // namespace

std::unique_ptr<Dataset> with_positions(std::unique_ptr<Dataset> data, std::span<const ValueInfo> inputs) {
  // Answers of an encoder and its decoder are about the decoder's tokens.
  size_t tokens = named(inputs, "decoder_input_ids");
  const size_t mask = named(inputs, tokens == kNone ? "attention_mask" : "decoder_attention_mask");
  if (tokens == kNone) tokens = token_input(inputs, mask);
  if (mask == kNone && tokens == kNone) return data;
  return std::make_unique<SequenceData>(std::move(data), tokens, mask);
}

}  // namespace seqto
