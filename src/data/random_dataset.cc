// Numbers made up by the shapes of the inputs: for what depends on no values, latency above all.
#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "base/hash.h"
#include "data/convert.h"
#include "data/datasets.h"
#include "data/select.h"
#include "data/shapes.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

constexpr int64_t kUsualSamples = 100;

bool is_real(DataType type) {
  return type == DataType::kFloat || type == DataType::kDouble || type == DataType::kFloat16 ||
         type == DataType::kUndefined;
}

class RandomDataset : public Dataset {
 public:
  RandomDataset(std::span<const ValueInfo> inputs, std::vector<int64_t> rows, uint64_t seed)
      : inputs_(inputs.begin(), inputs.end()), rows_(std::move(rows)), seed_(seed) {
    for (const ValueInfo& input : inputs) shapes_.push_back(closed_shape(input, inputs));
    read(0);
  }

  int64_t size() const override { return static_cast<int64_t>(rows_.size()); }
  bool has_labels() const override { return false; }
  bool is_random() const override { return true; }

  Sample read(int64_t index) const override {
    const int64_t row = rows_[index];
    Sample sample{.name = fmt::format("random {}", row), .position = row};
    std::seed_seq seeds{static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32), static_cast<uint32_t>(row)};
    std::mt19937_64 engine(seeds);
    for (size_t i = 0; i < inputs_.size(); ++i) sample.inputs.push_back(make(inputs_[i], shapes_[i], engine));
    return sample;
  }

  std::string fingerprint() const override {
    std::string text = fmt::format("random {}\n", seed_);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      text += fmt::format("{}\t{}\t{}\n", inputs_[i].name, to_string(inputs_[i].type), shape_text(shapes_[i]));
    }
    for (const int64_t row : rows_) text += fmt::format("{}\n", row);
    return sha256_hex(text);
  }

 private:
  // Reals from -1 to 1; whole numbers are 0 or 1, which every table that they may index has.
  static Tensor make(const ValueInfo& input, const std::vector<int64_t>& dims, std::mt19937_64& engine) {
    size_t count = 1;
    for (const int64_t dim : dims) count *= static_cast<size_t>(dim);
    std::vector<float> values(count);
    for (float& value : values) {
      const uint64_t bits = engine() >> 40;  // as many as a float's fraction holds
      value = is_real(input.type) ? static_cast<float>(bits) * 0x1p-23f - 1 : static_cast<float>(bits >> 23);
    }
    return convert(Tensor::from(DataType::kFloat, dims, std::move(values)), input.type,
                   fmt::format("model input '{}'", input.name));
  }

  std::vector<ValueInfo> inputs_;
  std::vector<std::vector<int64_t>> shapes_;
  std::vector<int64_t> rows_;
  uint64_t seed_;
};

}  // namespace

std::unique_ptr<Dataset> open_random(std::span<const ValueInfo> inputs, const DatasetOptions& options) {
  if (!options.labels.empty() || !options.preprocess.empty()) {
    throw Error(Code::kInvalidInput,
                "[data] random: labels or preprocessing found; neither means anything for random numbers; leave them "
                "out, or give real data");
  }
  DatasetOptions chosen = options;
  chosen.samples = std::min<int64_t>(0, options.samples);  // said by the size; below 0 it is refused
  return std::make_unique<RandomDataset>(inputs, select(options.samples > 0 ? options.samples : kUsualSamples, chosen),
                                         options.seed);
}

}  // namespace seqto::internal
