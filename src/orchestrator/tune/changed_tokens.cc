// Where the selected model of a language goes on in other words than the float model.
#include <algorithm>

#include "data/tokenizer.h"
#include "metrics/loss/output_values.h"
#include "metrics/loss/softmax.h"
#include "orchestrator/study/summarize.h"
#include "orchestrator/tune/finalists.h"
#include "seqto/task.h"

namespace seqto::internal {
namespace {

constexpr size_t kExamples = 8, kContext = 24;

struct Change {
  std::string sample;
  int64_t position = 0;
  Tokens before;
  int64_t reference = 0, candidate = 0;
  double reference_share = 0, candidate_share = 0;  // of these tokens, by the float model
};

size_t likeliest(std::span<const float> scores) {
  return static_cast<size_t>(std::ranges::max_element(scores) - scores.begin());
}

// The first position whose likeliest next token is another. `tokens` are those of the sample that count.
std::optional<Change> first_change(std::span<const float> wanted, std::span<const float> found, const Tokens& tokens,
                                   size_t width) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto scores = wanted.subspan(i * width, width);
    const size_t reference = likeliest(scores), candidate = likeliest(found.subspan(i * width, width));
    if (reference == candidate) continue;
    const std::vector<double> shares = softmax(scores);
    const size_t begin = i + 1 > kContext ? i + 1 - kContext : 0;
    return Change{
        .position = static_cast<int64_t>(i) + 1,
        .before = {tokens.begin() + static_cast<ptrdiff_t>(begin), tokens.begin() + static_cast<ptrdiff_t>(i + 1)},
        .reference = static_cast<int64_t>(reference),
        .candidate = static_cast<int64_t>(candidate),
        .reference_share = shares[reference],
        .candidate_share = shares[candidate]};
  }
  return {};
}

std::vector<ChangedToken> in_words(const std::vector<Change>& changes, const std::string& tokenizer) {
  std::vector<Tokens> ids;
  for (const Change& c : changes) {
    ids.push_back(c.before);
    ids.push_back({c.reference});
    ids.push_back({c.candidate});
  }
  const std::vector<std::string> texts = texts_of(ids, tokenizer);
  std::vector<ChangedToken> result;
  for (size_t i = 0; i < changes.size(); ++i)
    result.push_back({.sample = changes[i].sample,
                      .position = changes[i].position,
                      .before = texts[3 * i],
                      .reference = texts[3 * i + 1],
                      .candidate = texts[3 * i + 2],
                      .reference_share = changes[i].reference_share,
                      .candidate_share = changes[i].candidate_share});
  return result;
}

}  // namespace

bool shows_tokens(const Inputs& in, const OpenStudy& study, const Place& place) {
  const EvaluationData& data = place.evaluation;
  return !in.options.dataset.text.tokenizer.empty() && task_of_study(study.ending.task).writes &&
         data.reference.rows == std::ssize(data.samples);
}

std::optional<ChangedTokens> changed_tokens(const Inputs& in, const OpenStudy& study, const Place& place) {
  const EvaluationData& data = place.evaluation;
  const std::string id = summarize(study.study, in.options.output, study.ending).selected;
  auto session = place.runner->load_file(StudyFolder{in.options.output}.model(id).string());
  const auto width = static_cast<size_t>(data.reference.classes());
  ChangedTokens result;
  std::vector<Change> changes;
  for (size_t i = 0; i < data.samples.size(); ++i) {
    in.env.stop_if_cancelled("evaluate");
    const Sample sample = data.data->read(data.samples[i]);
    Outputs outputs;
    append_outputs(outputs, answers_among(run_sample(*session, sample), session->output_names()), "[evaluate]",
                   sample.counted);
    const auto wanted = data.reference.row(static_cast<int64_t>(i)), found = outputs.row(0);
    if (wanted.size() != found.size() || wanted.size() != sample.tokens.size() * width) return {};
    ++result.samples;
    if (auto change = first_change(wanted, found, sample.tokens, width)) {
      change->sample = sample.name;
      changes.push_back(*std::move(change));
    }
  }
  result.changed = std::ssize(changes);
  // Where the float model tells the two apart most is the worst.
  std::ranges::stable_sort(changes, std::greater(),
                           [](const Change& c) { return c.reference_share - c.candidate_share; });
  if (changes.size() > kExamples) changes.resize(kExamples);
  result.examples = in_words(changes, in.options.dataset.text.tokenizer);
  return result;
}

}  // namespace seqto::internal
