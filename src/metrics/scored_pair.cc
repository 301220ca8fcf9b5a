#include "metrics/scored_pair.h"

#include "metrics/output_values.h"

namespace seqto::internal {

ScoredPair::ScoredPair(Metrics metrics, bool labelled, std::vector<std::string> reference_names,
                       std::vector<std::string> candidate_names)
    : metrics_(std::move(metrics)),
      labelled_(labelled),
      reference_{{}, Answers(std::move(reference_names))},
      candidate_{{}, Answers(std::move(candidate_names))} {}

void ScoredPair::append(Side& side, const Sample& sample, std::span<const Tensor> outputs) const {
  if (!metrics_.empty()) side.all.append(outputs, sample.counted);
  append_outputs(side.outputs, outputs, "[metric]", sample.counted);
}

void ScoredPair::append(const Sample& sample, std::span<const Tensor> reference, std::span<const Tensor> candidate) {
  append(reference_, sample, reference);
  append(candidate_, sample, candidate);
  if (!metrics_.empty()) truths_.push_back(truth_of(sample));
  if (labelled_) labels_.push_back(sample.label);
}

std::pair<Measurement, Measurement> ScoredPair::measured() const {
  std::pair<Measurement, Measurement> both;
  measure_outputs(both.first, reference_.outputs, reference_.outputs, labels_);
  measure_outputs(both.second, reference_.outputs, candidate_.outputs, labels_);
  measure_task(both.first, metrics_, reference_.all, reference_.all, truths_);
  measure_task(both.second, metrics_, candidate_.all, reference_.all, truths_);
  return both;
}

}  // namespace seqto::internal
