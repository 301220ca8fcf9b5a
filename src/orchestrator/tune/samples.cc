#include "orchestrator/tune/samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/hash.h"
#include "orchestrator/tune/options.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

// Data sets one after the other.
class JoinedDataset : public Dataset {
 public:
  int64_t add(std::unique_ptr<Dataset> part) {  // returns where it begins
    int64_t begin = size_;
    size_ += part->size();
    parts_.push_back({begin, std::move(part)});
    return begin;
  }

  int64_t size() const override { return size_; }
  Sample read(int64_t index) const override {
    auto part = std::find_if(parts_.rbegin(), parts_.rend(), [&](const Part& p) { return p.begin <= index; });
    Sample sample = part->data->read(index - part->begin);
    sample.sequence += static_cast<int64_t>(parts_.rend() - part) << 40;  // none goes on in the next part
    return sample;
  }
  // Of those that are evaluated, which come last.
  bool has_labels() const override { return parts_.back().data->has_labels(); }
  bool is_random() const override {
    return std::any_of(parts_.begin(), parts_.end(), [](const Part& p) { return p.data->is_random(); });
  }
  std::string fingerprint() const override {
    std::string all;
    for (const Part& p : parts_) all += p.data->fingerprint() + "\n";
    return sha256_hex(all);
  }

 private:
  struct Part {
    int64_t begin;
    std::unique_ptr<Dataset> data;
  };
  std::vector<Part> parts_;
  int64_t size_ = 0;
};

std::vector<int64_t> numbers(int64_t from, int64_t to) {
  std::vector<int64_t> list(static_cast<size_t>(std::max<int64_t>(0, to - from)));
  std::iota(list.begin(), list.end(), from);
  return list;
}

// The first `limit`; 0: all.
int64_t limited(int64_t size, int64_t limit) { return limit > 0 ? std::min(limit, size) : size; }

Samples from_one(const TuneOptions& o, std::span<const ValueInfo> inputs) {
  Samples s{open_dataset(o.data, inputs, o.dataset), {}, {}, 0};
  s.split = split(s.data->size(), {.calibration = o.calibration_samples,
                                   .search = search_samples(o, s.data->size() - o.calibration_samples),
                                   .evaluation = o.evaluation_samples});
  return s;
}

Samples from_several(const TuneOptions& o, std::span<const ValueInfo> inputs) {
  DatasetOptions plain = o.dataset;
  plain.labels.clear();
  plain.samples = plain.random_samples = 0;
  auto data = std::make_unique<JoinedDataset>();
  Samples s;
  if (!o.ranking_data.empty()) {
    data->add(open_dataset(o.ranking_data, inputs, plain));
    s.ranking = numbers(0, data->size());
  }
  int64_t begin = data->size();
  if (!o.calibration_data.empty()) {
    s.calibration_begin = begin = data->add(open_dataset(o.calibration_data, inputs, plain));
    s.split.calibration = numbers(begin, begin + limited(data->size() - begin, o.calibration_samples));
  }
  begin = data->add(open_dataset(o.data, inputs, o.dataset));
  if (o.calibration_data.empty()) {
    s.calibration_begin = begin;
    const int64_t size = data->size() - begin;
    s.split = split(size, {.calibration = o.calibration_samples,
                           .search = search_samples(o, size - o.calibration_samples),
                           .evaluation = o.evaluation_samples});
    for (auto* part : {&s.split.calibration, &s.split.search, &s.split.evaluation})
      for (int64_t& index : *part) index += begin;
  } else {
    const int64_t searched = search_samples(o, data->size() - begin);
    s.split.search = numbers(begin, begin + searched);
    begin += searched;
    s.split.evaluation = numbers(begin, begin + limited(data->size() - begin, o.evaluation_samples));
  }
  s.data = std::move(data);
  return s;
}

}  // namespace

Samples open_samples(const TuneOptions& o, std::span<const ValueInfo> inputs) {
  bool one = o.calibration_data.empty() && o.ranking_data.empty();
  Samples s = one ? from_one(o, inputs) : from_several(o, inputs);
  if (s.split.evaluation.empty())
    throw Error(Code::kInvalidInput,
                fmt::format("[tune] {} samples found, all of them used for calibration; at least one more "
                            "was expected for the evaluation; give more data or fewer --calibration-samples",
                            s.data->size()));
  if (searches(o) && s.split.search.size() < 2)
    throw Error(
        Code::kInvalidInput,
        fmt::format("[tune] {} samples found; strategy {} expects at least 3 beside those for calibration, to search, "
                    "to confirm and to evaluate on; give more data, fewer --calibration-samples, or --strategy "
                    "incremental",
                    s.data->size(), o.strategy));
  if (s.ranking.empty()) {
    auto count = limited(static_cast<int64_t>(s.split.calibration.size()), std::max<int64_t>(1, o.ranking_samples));
    s.ranking.assign(s.split.calibration.begin(), s.split.calibration.begin() + count);
  }
  return s;
}

}  // namespace seqto::internal
