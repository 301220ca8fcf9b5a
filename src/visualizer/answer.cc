// The first sentence that a user reads: which model to use, and what it costs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "data/select.h"
#include "metrics/limits.h"
#include "seqto/report.h"
#include "seqto/task.h"
#include "visualizer/format.h"
#include "visualizer/points.h"

namespace seqto {
namespace {

// "3.9 x smaller", or that there is nothing to tell apart.
std::string times(double before, double after, const char* less, const char* more, const char* same) {
  const double ratio = before / after;
  if (std::abs(ratio - 1) < kSame) return same;
  return ratio > 1 ? fmt::format("{:.1f} x {}", ratio, less) : fmt::format("{:.1f} x {}", 1 / ratio, more);
}

// With as many digits as tell it from 1.
std::string cosine(double distance) {
  const double digits = distance > 0 ? std::ceil(-std::log10(distance)) : 0;
  return fmt::format("{:.{}f}", 1 - distance, static_cast<int>(std::clamp(digits, 4.0, 11.0)) + 1);
}

std::string quality(const Summary& summary, const SummaryPoint& point) {
  const std::string& figure = summary.judged_by;
  const auto interval = internal::judged_interval(point, figure);
  const double value = internal::loss_of(point, figure);
  const auto with_ends = [&](const std::string& words, auto show) {
    if (!interval) return words;
    std::string low = show(interval->low);
    if (low.ends_with(" %")) low.resize(low.size() - 2);
    return fmt::format("{} ({} to {})", words, low, show(interval->high));
  };
  if (figure == "top1_disagreement")
    return with_ends(
        fmt::format("{} of the {} change", internal::format_percent(value), task_of_study(summary.task).answers),
        internal::format_percent);
  // Of vectors of length 1 it is twice the cosine distance, which people know by another name.
  if (figure == "nmse" && task_of_study(summary.task).embeds)
    return fmt::format("embeddings at a cosine of {} to float's", cosine(internal::loss_of(point, "cosine")));
  return with_ends(fmt::format("{} {}", internal::loss_label(figure), internal::format_figure(value)),
                   internal::format_figure);
}

// Of a data set so large that `judged` are left to judge on: of more samples more are taken to calibrate and search on.
int64_t samples_in_all(const StudyHeader& header, int64_t judged) {
  const auto options = internal::parse_json_if_any(header.options_json);
  const int64_t asked = options.is_object() ? options.value("calibration_samples", int64_t{0}) : 0;
  const int64_t search = header.search_samples > 0 ? internal::kSearchSamples : 0;
  return std::max(header.calibration_samples, asked) + std::max(header.search_samples, search) + judged;
}

// As few digits as tell it from 0.
std::string tolerance(const Summary& summary) {
  return summary.tolerance < 0.001 ? fmt::format("{:.2g} %", 100 * summary.tolerance)
                                   : internal::format_percent(summary.tolerance);
}

// Where even a candidate that changes nothing could not be told to be as good: what to type.
std::string too_few_samples(const Summary& summary, const SummaryPoint& point) {
  constexpr double kMostTolerance = 0.1;  // beyond it nobody would call a model as good
  const int64_t samples = internal::counted_samples(*point.trial.measurement, summary.judged_by);
  const int64_t independent = internal::independent_samples(*point.trial.measurement, summary.judged_by);
  const double share = samples > 0 ? internal::changed_share(*point.trial.measurement, summary.judged_by) : 1;
  const int64_t needed = internal::samples_for(summary.tolerance / share);
  if (summary.as_good_as_float || !summary.limits.empty() || samples == 0 || independent >= needed) return "";
  const auto changed = internal::judged_interval(point, summary.judged_by);
  if (!changed || changed->low > summary.tolerance) return "";  // more samples would not make it better
  const std::string& by = summary.fewer_samples_by;
  const int64_t batch = summary.items_in_sample, in_all = batch * samples_in_all(summary.header, needed);
  const bool are_alike = independent < samples;
  const std::string alike =
      are_alike ? fmt::format(", alike within {} files or parts of files,", independent) : std::string();
  const std::string more = are_alike            ? "samples of more files"
                           : by.empty()         ? fmt::format("{} samples or more", in_all)
                           : by == "--max-time" ? "more --max-time, or none"
                                                : fmt::format("{} {} or more", by, needed);
  const double possible = std::ceil(1000 * changed->high) / 1000;
  const std::string judged =
      batch > 1 ? fmt::format("{} batches of {} samples", samples, batch) : fmt::format("{} samples", samples);
  return fmt::format(" {}{} cannot show {}: give {}, with another --output{}.", judged, alike, tolerance(summary), more,
                     possible > kMostTolerance ? "" : fmt::format(", or --tolerance {:.2g}%", 100 * possible));
}

}  // namespace

std::string answer(const Summary& summary) {
  const SummaryPoint* point = internal::find_point(summary, summary.selected);
  const auto& before = summary.baseline.trial.measurement;
  if (summary.judged_by.empty() || !point || !point->trial.measurement || !before) return "";
  const Measurement& after = *point->trial.measurement;
  const Task& task = task_of_study(summary.task);
  std::vector<std::string> parts{times(static_cast<double>(before->size_bytes), static_cast<double>(after.size_bytes),
                                       "smaller", "larger", "of the same size")};
  const auto speed = [](const Latency& a, const Latency& b) -> std::string {
    return speed_of(b, a) == Speed::kSame ? "as fast" : times(1, ratio_of(b, a), "faster", "slower", "as fast");
  };
  const bool decodes = before->decode_latency && after.decode_latency;
  const bool has_steps = decodes || std::ranges::count(summary.objectives, "decode_latency") > 0;
  if (before->latency.median_ns > 0 && after.latency.median_ns > 0 && !internal::is_for_another_device(summary))
    parts.push_back(speed(before->latency, after.latency) + (has_steps ? fmt::format(" {}", task.a_run) : ""));
  // What trials time of it at moments of their own is no verdict.
  if (decodes)
    parts.push_back(after.decode_latency->over_float
                        ? speed(*before->decode_latency, *after.decode_latency) + " on the next token"
                        : "the next token timed too briefly to tell");
  else if (has_steps) parts.push_back("the next token not timed");
  if (!internal::has_random_data(summary)) parts.push_back(quality(summary, *point));
  // What a detector's users go by, beside the loss that says little to them.
  constexpr const char* kPrecision = "map50_95";
  if (summary.judged_by != kPrecision && before->metrics.contains(kPrecision) && after.metrics.contains(kPrecision))
    parts.push_back(fmt::format("{} {:.3f} instead of {:.3f}", kPrecision, after.metrics.at(kPrecision),
                                before->metrics.at(kPrecision)));
  if (task.embeds && after.metrics.contains("topk_overlap"))
    parts.push_back(internal::format_percent(after.metrics.at("topk_overlap")) + " of each one's nearest kept");
  std::string name = point->file.empty() ? "candidate " + point->name : point->file;
  if (!summary.selected_file.empty()) name = summary.selected_file;
  const bool met = std::ranges::all_of(summary.limits, [](const CheckedLimit& c) { return c.met; });
  std::string first = "Use " + name;
  if (!met) first = "No candidate meets the limits; the nearest is " + name;
  else if (summary.limits.empty() && !summary.as_good_as_float)
    first = fmt::format("No candidate is surely within {} of float; the nearest is {}", tolerance(summary), name);
  return fmt::format("{}: {}.{}", first, fmt::join(parts, ", "), too_few_samples(summary, *point));
}

}  // namespace seqto
