#include "metrics/scored_pair.h"

#include <fmt/format.h>

#include "seqto/error.h"

namespace seqto::internal {

ScoredPair::ScoredPair(Metrics metrics, bool labelled, std::vector<std::string> reference_names,
                       std::vector<std::string> candidate_names)
    : metrics_(std::move(metrics)),
      labelled_(labelled),
      reference_{{}, Answers(std::move(reference_names))},
      candidate_{{}, Answers(std::move(candidate_names))} {}

void ScoredPair::append(Side& side, std::span<const Tensor> outputs) const {
  if (!metrics_.empty()) side.all.append(outputs);
  if (outputs.empty() || (outputs[0].type() != DataType::kFloat && outputs[0].type() != DataType::kFloat16))
    throw Error(Code::kInvalidInput,
                fmt::format("[metric] the first output is {}; a float one was expected; put it first",
                            outputs.empty() ? "absent" : to_string(outputs[0].type())));
  std::vector<float> values(static_cast<size_t>(outputs[0].element_count()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(element(outputs[0], static_cast<int64_t>(i)));
  side.first.append(values);
}

void ScoredPair::append(const Sample& sample, std::span<const Tensor> reference, std::span<const Tensor> candidate) {
  append(reference_, reference);
  append(candidate_, candidate);
  if (!metrics_.empty()) truths_.push_back(truth_of(sample));
  if (labelled_) labels_.push_back(sample.label);
}

std::pair<Measurement, Measurement> ScoredPair::measured() const {
  std::pair<Measurement, Measurement> both;
  measure_outputs(both.first, reference_.first, reference_.first, labels_);
  measure_outputs(both.second, reference_.first, candidate_.first, labels_);
  measure_task(both.first, metrics_, reference_.all, reference_.all, truths_);
  measure_task(both.second, metrics_, candidate_.all, reference_.all, truths_);
  return both;
}

}  // namespace seqto::internal
