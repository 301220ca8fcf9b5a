// Task metrics, and the samples behind those that are means.
#pragma once

#include "seqto/metrics.h"

namespace seqto {

struct LabelledOutputs {
  std::map<std::string, double> metrics;
  std::map<std::string, std::vector<double>> hits;  // of "top1" and "top5": a 0 or 1 for each sample with a label
};
LabelledOutputs score(const Outputs& outputs, std::span<const int64_t> labels);

}  // namespace seqto
