// Task metrics of classifiers, and the samples behind them.
#pragma once

#include "seqto/metrics.h"

namespace seqto {

struct LabelledOutputs {
  std::map<std::string, double> metrics;
  std::map<std::string, std::vector<double>> hits;  // of "top1" and "top5": a 0 or 1 for each sample with a label
  std::vector<double> f1_replicates;                // see for_each_resample()
};
// Throws Error{kInvalidInput} where a label is that of no output, of outputs of more than one value.
// `blocks`: of the samples with a label.
LabelledOutputs score(const Outputs& outputs, std::span<const int64_t> labels, const Blocks& blocks = {});

// The mean on resamples; not empty. For samples of which some do not count: Measurement::blocks is of all of them.
std::vector<double> mean_on_resamples(std::span<const double> values, const Blocks& blocks);

}  // namespace seqto
