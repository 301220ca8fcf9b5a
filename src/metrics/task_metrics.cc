#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "metrics/task_metrics.h"
#include "metrics/top_classes.h"
#include "seqto/error.h"
#include "seqto/metrics.h"

namespace seqto {
namespace {

struct ClassCounts {
  int64_t labels = 0, predictions = 0, hits = 0;
};

// Mean over the classes that occur as labels of 2 hits / (labels + predictions).
double macro_f1(const std::map<int64_t, ClassCounts>& classes) {
  double sum = 0;
  int64_t count = 0;
  for (const auto& [_, counts] : classes) {
    if (counts.labels == 0) continue;
    sum += 2.0 * static_cast<double>(counts.hits) / static_cast<double>(counts.labels + counts.predictions);
    ++count;
  }
  return sum / static_cast<double>(count);
}

}  // namespace

LabelledOutputs score(const Outputs& outputs, std::span<const int64_t> labels) {
  LabelledOutputs result;
  if (labels.empty()) return result;
  if (static_cast<int64_t>(labels.size()) != outputs.rows) {
    throw Error(Code::kInvalidInput, fmt::format("[evaluate] {} labels found for {} samples; one for each expected",
                                                 labels.size(), outputs.rows));
  }
  std::vector<double>&top1 = result.hits["top1"], &top5 = result.hits["top5"];
  std::map<int64_t, ClassCounts> classes;
  for (int64_t i = 0; i < outputs.rows; ++i) {
    const int64_t label = labels[i];
    if (label < 0) continue;
    ++classes[label].labels;
    top1.push_back(0);
    top5.push_back(0);
    if (outputs.columns == 0 || has_nan(outputs.row(i))) continue;  // predicts nothing
    const TopClasses top = top_classes(outputs.row(i));
    const bool hit = top.classes[0] == label;
    top1.back() = hit;
    top5.back() = std::ranges::find(top.list(), label) != top.list().end();
    ++classes[top.classes[0]].predictions;
    classes[label].hits += hit;
  }
  if (top1.empty()) return {};
  for (const auto& [name, hits] : result.hits)
    result.metrics[name] = std::accumulate(hits.begin(), hits.end(), 0.0) / static_cast<double>(hits.size());
  result.metrics["f1"] = macro_f1(classes);
  return result;
}

std::map<std::string, double> task_metrics(const Outputs& outputs, std::span<const int64_t> labels) {
  return score(outputs, labels).metrics;
}

}  // namespace seqto
