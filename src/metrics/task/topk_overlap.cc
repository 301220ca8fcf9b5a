// Retrieval among the samples: whether each finds the same nearest ones as with the float model.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "metrics/loss/pooling.h"
#include "metrics/task/task_metric_kinds.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

constexpr size_t kNearest = 10;

using Vectors = std::vector<std::vector<float>>;
using Places = std::vector<size_t>;

// The mean over the samples of the share of the float model's nearest ones, by cosine, that are among the candidate's.
class TopkOverlap : public NamedMetric {
 public:
  explicit TopkOverlap(Pooling pooling) : NamedMetric("topk_overlap", true), pooling_(pooling) {}

  Score score(const Answers& answers, const Answers& reference, std::span<const Truth>) const override {
    const Vectors wanted = vectors(reference), found = vectors(answers);
    if (wanted.size() < 3) fail(fmt::format("{} samples", wanted.size()), "at least 3");
    const size_t k = std::min(kNearest, (wanted.size() - 1) / 2);
    Score score;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const Places a = nearest(wanted, i, k), b = nearest(found, i, k);
      Places both;
      std::ranges::set_intersection(a, b, std::back_inserter(both));
      score.samples.push_back(static_cast<double>(both.size()) / static_cast<double>(k));
    }
    score.value =
        std::accumulate(score.samples.begin(), score.samples.end(), 0.0) / static_cast<double>(score.samples.size());
    return score;
  }

 private:
  [[noreturn]] static void fail(const std::string& found, const std::string& expected) {
    throw Error(Code::kInvalidInput, fmt::format("[metric] topk_overlap: {} found; {} expected; leave --metric "
                                                 "topk_overlap out",
                                                 found, expected));
  }

  Vectors vectors(const Answers& answers) const {
    if (answers.outputs.empty()) fail("a model without outputs", "one whose first output is an embedding");
    const std::vector<int64_t>& dims = answers.dims[answers.first];
    const bool positions = dims.size() == 3;
    const Pooling pooling = !positions ? Pooling::kWhole : pooling_ == Pooling::kNone ? Pooling::kMean : pooling_;
    Vectors result;
    for (int64_t i = 0; i < answers.rows(); ++i) {
      const auto row = answers.outputs[answers.first].row(i);
      result.push_back(pooled(row, positions ? static_cast<size_t>(dims.back()) : row.size(), pooling));
      if (result.back().size() != result.front().size())
        fail("embeddings of several lengths", "features, or [1, positions, features],");
    }
    return result;
  }

  // In the order of the samples. Of equally near ones the first count.
  static Places nearest(const Vectors& vectors, size_t to, size_t k) {
    std::vector<double> nearness;
    Places places;
    for (size_t i = 0; i < vectors.size(); ++i) {
      nearness.push_back(std::inner_product(vectors[i].begin(), vectors[i].end(), vectors[to].begin(), 0.0));
      if (i != to) places.push_back(i);
    }
    const auto last = places.begin() + static_cast<ptrdiff_t>(k);
    std::ranges::partial_sort(places, last, [&](size_t a, size_t b) {
      return nearness[a] != nearness[b] ? nearness[a] > nearness[b] : a < b;
    });
    places.erase(last, places.end());
    std::ranges::sort(places);
    return places;
  }

  Pooling pooling_;
};

}  // namespace

std::shared_ptr<const Metric> make_topk_overlap(Pooling pooling) { return std::make_shared<TopkOverlap>(pooling); }

}  // namespace seqto::internal
