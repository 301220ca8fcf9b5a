// How well a language model foretells its own samples' tokens.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "metrics/loss/softmax.h"
#include "metrics/task/task_metric_kinds.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

// Of a sample: nats, and tokens that they are the sum over.
struct Surprise {
  double nats = 0, tokens = 0;
};

double log_share(std::span<const float> scores, int64_t token) {
  const double largest = *std::ranges::max_element(scores);
  double sum = 0;
  for (const float score : scores) sum += std::exp(score - largest);
  return scores[static_cast<size_t>(token)] - largest - std::log(sum);
}

// exp of the mean over all tokens but each sample's first of -log p(token | those before it).
class Perplexity : public NamedMetric {
 public:
  Perplexity() : NamedMetric("perplexity", false) {}

  Score score(const Answers& answers, const Answers&, std::span<const Truth> truths) const override {
    if (answers.outputs.empty()) fail("a model without outputs");
    std::vector<Surprise> surprises;
    std::vector<Origin> origins;
    for (size_t i = 0; i < truths.size(); ++i) {
      if (truths[i].tokens.size() < 2) continue;
      surprises.push_back(surprise(answers.outputs[answers.first].row(static_cast<int64_t>(i)), truths[i].tokens));
      origins.push_back(truths[i].origin);
    }
    if (surprises.empty()) fail("no sample of two tokens");
    const auto mean = [&](std::span<const double> counts) {
      Surprise all;
      for (size_t i = 0; i < surprises.size(); ++i) {
        all.nats += counts[i] * surprises[i].nats;
        all.tokens += counts[i] * surprises[i].tokens;
      }
      return std::exp(all.nats / all.tokens);
    };
    Score score{.value = mean(std::vector<double>(surprises.size(), 1))};
    const auto replicate = [&](std::span<const double> counts) { score.replicates.push_back(mean(counts)); };
    for_each_resample(surprises.size(), kReplicates, replicate, blocks_of(origins));
    return score;
  }

 private:
  [[noreturn]] static void fail(const std::string& found) {
    throw Error(Code::kInvalidInput,
                fmt::format("[metric] perplexity: {} found; a model that reads token ids as input_ids, [1, positions], "
                            "and gives scores of the next one, [1, positions, tokens], expected; leave --metric "
                            "perplexity out",
                            found));
  }

  static Surprise surprise(std::span<const float> scores, std::span<const int64_t> tokens) {
    const size_t width = scores.size() / tokens.size();
    if (const std::string why = no_token_scores(scores.size(), tokens.size()); !why.empty()) fail(why);
    Surprise result{.tokens = static_cast<double>(tokens.size() - 1)};
    for (size_t i = 1; i < tokens.size(); ++i) {
      if (tokens[i] < 0 || static_cast<size_t>(tokens[i]) >= width)
        fail(fmt::format("the token {} and scores of {} tokens", tokens[i], width));
      result.nats -= log_share(scores.subspan((i - 1) * width, width), tokens[i]);
    }
    return result;
  }
};

}  // namespace

std::string no_token_scores(size_t values, size_t tokens) {
  if (tokens > 0 && values % tokens == 0 && values >= 2 * tokens) return {};
  return fmt::format("a first output of {} values for {} tokens", values, tokens);
}

std::shared_ptr<const Metric> make_perplexity() { return std::make_shared<Perplexity>(); }

}  // namespace seqto::internal
