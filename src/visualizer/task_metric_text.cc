// Task metrics of one model on their own.
#include <fmt/format.h>

#include "seqto/report.h"
#include "visualizer/format.h"

namespace seqto {

std::string task_metrics_text(const Measurement& measurement) {
  std::string text;
  for (const auto& [name, value] : measurement.metrics) {
    text += fmt::format("{} {}", name, internal::format_figure(value));
    if (const auto found = measurement.intervals.find(name); found != measurement.intervals.end())
      text += fmt::format(" ({} to {})", internal::format_figure(found->second.low),
                          internal::format_figure(found->second.high));
    text += "\n";
  }
  return text;
}

}  // namespace seqto
