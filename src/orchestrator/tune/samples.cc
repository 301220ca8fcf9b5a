#include "orchestrator/tune/samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/hash.h"
#include "data/datasets.h"
#include "orchestrator/tune/options.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

// Data sets one after the other.
class JoinedDataset : public Dataset {
 public:
  int64_t add(std::shared_ptr<const Dataset> part) {  // returns where it begins
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
  // Of its part alone.
  SampleKind kind(int64_t index) const override {
    const Part& part = *std::find_if(parts_.rbegin(), parts_.rend(), [&](const Part& p) { return p.begin <= index; });
    return part.data->kind(index - part.begin);
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
    std::shared_ptr<const Dataset> data;
  };
  std::vector<Part> parts_;
  int64_t size_ = 0;
};

// The first `limit`; 0: all.
int64_t limited(int64_t size, int64_t limit) { return limit > 0 ? std::min(limit, size) : size; }

// Samples of `data` in the study's order, as numbers of the joined data that it begins at `begin` of.
std::vector<int64_t> ordered(const TuneOptions& o, const Dataset& data, int64_t begin) {
  std::vector<int64_t> order(static_cast<size_t>(data.size()));
  std::iota(order.begin(), order.end(), 0);
  if (o.dataset.order == SampleOrder::kMixed && !data.is_random()) order = mixed_order(data, o.dataset.seed);
  for (int64_t& index : order) index += begin;
  return order;
}

std::vector<int64_t> part_of(const std::vector<int64_t>& order, int64_t from, int64_t count) {
  const auto begin = order.begin() + std::min<int64_t>(from, std::ssize(order));
  return {begin, begin + std::min<int64_t>(count, order.end() - begin)};
}

// What was asked for where there are as many; else half of them to calibrate, a third of what is left to search on.
SplitOptions counts_of(const TuneOptions& o, int64_t size) {
  constexpr int64_t kFewest = 8;
  const int64_t beside = searches(o) ? 3 : 1;  // to search, to confirm, to evaluate on
  const int64_t half = std::max<int64_t>(1, size / 2);
  SplitOptions counts;
  counts.calibration =
      o.calibration_samples.value_or(searches(o) ? std::min(kCalibrationSamples, half) : kCalibrationSamples);
  if (counts.calibration + beside > size && size >= kFewest) counts.calibration = half;
  counts.search = search_samples(o, size - counts.calibration);
  const int64_t left = size - counts.calibration;
  if (counts.search >= left && size >= kFewest) counts.search = std::clamp<int64_t>(left / 3 / 2 * 2, 2, left - 1);
  counts.evaluation = o.evaluation_samples;
  if (counts.evaluation > left - counts.search) counts.evaluation = 0;
  return counts;
}

Split divided(const TuneOptions& o, const Dataset& data, int64_t begin) {
  Split result = split(data.size(), counts_of(o, data.size()));
  const std::vector<int64_t> order = ordered(o, data, begin);
  for (auto* part : {&result.calibration, &result.search, &result.evaluation})
    for (int64_t& index : *part) index = order[static_cast<size_t>(index)];
  return result;
}

std::shared_ptr<const Dataset> data_of(const TuneOptions& o, const OpenData& open) {
  if (o.own.data) return o.own.data;
  return open(o.data, o.dataset);
}

// Whole numbers that are next to all different are values, not classes.
void tell_of(const Dataset& data, Samples& s) {
  constexpr int64_t kFewestOfOne = 4;  // on average
  s.kinds = count_kinds(data);
  if (s.kinds * kFewestOfOne > data.size()) s.kinds = 0;
  s.items_in_sample = items_in_sample(data);
}

Samples from_one(const TuneOptions& o, const OpenData& open) {
  Samples s{data_of(o, open), {}, {}, 0};
  tell_of(*s.data, s);
  s.split = divided(o, *s.data, 0);
  return s;
}

Samples from_several(const TuneOptions& o, const OpenData& open) {
  DatasetOptions plain = o.dataset;
  plain.labels.clear();
  plain.samples = plain.random_samples = 0;
  auto joined = std::make_unique<JoinedDataset>();
  Samples s;
  if (!o.ranking_data.empty()) {
    joined->add(open(o.ranking_data, plain));
    s.ranking.resize(static_cast<size_t>(joined->size()));
    std::iota(s.ranking.begin(), s.ranking.end(), 0);
  }
  s.calibration_begin = joined->size();
  if (!o.calibration_data.empty()) {
    auto own = open(o.calibration_data, plain);
    s.split.calibration = ordered(o, *own, s.calibration_begin);
    s.split.calibration.resize(
        static_cast<size_t>(limited(own->size(), o.calibration_samples.value_or(kCalibrationSamples))));
    joined->add(std::move(own));
  }
  auto data = data_of(o, open);
  tell_of(*data, s);
  if (o.calibration_data.empty()) {
    s.split = divided(o, *data, joined->size());
  } else {
    const std::vector<int64_t> order = ordered(o, *data, joined->size());
    const int64_t searched = search_samples(o, data->size());
    s.split.search = part_of(order, 0, searched);
    s.split.evaluation = part_of(order, searched, limited(data->size(), o.evaluation_samples));
  }
  joined->add(std::move(data));
  s.data = std::move(joined);
  return s;
}

}  // namespace

Samples open_samples(const TuneOptions& o, const OpenData& open) {
  bool one = o.calibration_data.empty() && o.ranking_data.empty();
  Samples s = one ? from_one(o, open) : from_several(o, open);
  if (s.split.evaluation.empty())
    throw Error(
        Code::kInvalidInput,
        fmt::format("[tune] {} samples found, {} used for calibration and {} to search on; at least one more was "
                    "expected for the evaluation; give more data, fewer --calibration-samples or fewer "
                    "--search-samples",
                    s.data->size(), s.split.calibration.size(), s.split.search.size()));
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

std::string in_words(const Samples& s) {
  std::string text = fmt::format("{} samples to calibrate", s.split.calibration.size());
  if (!s.split.search.empty()) text += fmt::format(", {} to search", s.split.search.size());
  text += fmt::format(", {} to judge", s.split.evaluation.size());
  return s.kinds > 1 ? fmt::format("{}; {} classes", text, s.kinds) : text;
}

}  // namespace seqto::internal
