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
LabelledOutputs score(const Outputs& outputs, std::span<const int64_t> labels, const Blocks& blocks = {});

}  // namespace seqto
