#include "metrics/scored_pair.h"

#include <fmt/format.h>

#include <filesystem>

#include "metrics/loss/other_shapes.h"
#include "metrics/loss/output_values.h"
#include "metrics/task/detections.h"
#include "metrics/zero_scores.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

// Where all samples of each have one length, and the two differ, they are models with other classes.
void require_one_form(const Outputs& reference, const Outputs& candidate) {
  const bool vary = !reference.ends.empty() || !candidate.ends.empty() || reference.rows < 2;
  if (vary || reference.columns == candidate.columns) return;
  throw Error(Code::kInvalidInput,
              fmt::format("[compare] outputs of {} values found; {} expected, as the reference has; compare two forms "
                          "of one model",
                          candidate.columns, reference.columns));
}

}  // namespace

std::vector<size_t> places(const std::vector<std::string>& wanted, const std::vector<std::string>& found) {
  std::vector<size_t> at;
  for (const auto& name : wanted) at.push_back(static_cast<size_t>(std::ranges::find(found, name) - found.begin()));
  return at;
}

std::vector<Tensor> in_order(const std::vector<Tensor>& answers, std::span<const size_t> places) {
  std::vector<Tensor> ordered;
  for (const size_t place : places) ordered.push_back(answers.at(place));
  return ordered;
}

ScoredPair::ScoredPair(const MetricOptions& asked, const Metrics& own, std::string reference, Names names,
                       bool labelled)
    : asked_(asked),
      own_(own),
      metrics_(make_metrics(asked, own)),
      path_(std::move(reference)),
      labelled_(labelled),
      names_(std::move(names)),
      reference_{{}, Answers(answer_names(names_.reference))},
      candidate_{{}, Answers(answer_names(names_.candidate))} {}

void ScoredPair::read_first(const Sample& sample, std::span<const Tensor> reference) {
  Outputs first;
  append_outputs(first, reference, "[metric]", sample.counted);
  reading_ = find_reading(asked_, load_model(path_), {.outputs = first, .sample = sample, .model = path_});
  reference_.outputs = candidate_.outputs = reading_.outputs();
  reference_.outputs.names = reference_.all.names;
  metrics_ = make_metrics(read_with(asked_, reading_), own_);
  labelled_ = labelled_ && reading_.gives_classes();
}

void ScoredPair::append(Side& side, const Sample& sample, std::span<const Tensor> outputs) const {
  if (!metrics_.empty()) side.all.append(outputs, sample.counted);
  append_outputs(side.outputs, outputs, "[metric]", sample.counted);
}

void ScoredPair::append(const Sample& sample, std::span<const Tensor> reference, std::span<const Tensor> candidate) {
  if (!reading_.task) read_first(sample, reference);
  append(reference_, sample, answers_among(reference, names_.reference));
  append(candidate_, sample, answers_among(candidate, names_.candidate));
  if (!metrics_.empty()) truths_.push_back(truth_of(sample));
  if (labelled_) labels_.push_back(sample.label);
  origins_.push_back({sample.source, sample.position});
}

std::pair<Measurement, Measurement> ScoredPair::measured(const Env& env) const {
  require_one_form(reference_.outputs, candidate_.outputs);
  std::pair<Measurement, Measurement> both;
  both.first.blocks = both.second.blocks = blocks_of(origins_);
  measure_outputs(both.first, reference_.outputs, reference_.outputs, labels_);
  measure_outputs(both.second, reference_.outputs, candidate_.outputs, labels_);
  measure_task(both.first, metrics_, reference_.all, reference_.all, truths_);
  measure_task(both.second, metrics_, candidate_.all, reference_.all, truths_);
  if (!reading_.detector.empty()) env.log(LogLevel::kInfo, "boxes: read as " + reading_.detector);
  if (const std::string note = note_on_class_numbers(metrics_, reference_.all, truths_); !note.empty())
    env.log(LogLevel::kInfo, note);
  if (const std::string note = note_on_shares(reading_.detector); !note.empty()) env.log(LogLevel::kInfo, note);
  if (const std::string note = note_on_missing_boxes(asked_, reading_.detector); !note.empty())
    env.log(LogLevel::kWarning, note);
  if (const std::string note = note_on_zero_scores(both.first); !note.empty()) env.log(LogLevel::kWarning, note);
  return both;
}

}  // namespace seqto::internal
