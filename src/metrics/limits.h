// Limits of figures that nothing measured, and how far figures can be trusted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "seqto/metrics.h"
#include "seqto/validate.h"

namespace seqto::internal {

// Throws Error{kInvalidInput}; `names`: of the figures that there are.
[[noreturn]] void refuse_limit(const Limit& limit, const std::vector<std::string>& names);

// --- The figure that says by how much a task metric dropped
std::string drop_figure(const std::string& metric);                    // "top1_drop" of "top1"
std::optional<std::string> dropped_metric(const std::string& figure);  // "top1"; nothing for other figures

// --- Shares of samples, and other figures of few samples (shares.cc)

// The interval of a figure, of a task metric's drop under the metric's name. Of a share the upper end is at least that
// of the exact interval (Clopper and Pearson 1934) of as many changed samples, each by changed_share(): a bootstrap of
// few or none is too narrow. Other figures of fewer than 20 samples have it expanded (Hesterberg 2015).
std::optional<Interval> trusted_interval(const Measurement& m, const std::string& figure, double value,
                                         std::optional<Interval> interval);
// Whether the figure is a share of the samples, and of how many; 0: it is not.
int64_t counted_samples(const Measurement& m, const std::string& figure);
// Of these as many as are not alike: windows of one recording count once for each block that resamples draw.
int64_t independent_samples(const Measurement& m, const std::string& figure);
// How much of a sample's answer changes where it does: of one class all, of a text's positions the mean share of them;
// where no text changed, one position.
double changed_share(const Measurement& m, const std::string& figure);

}  // namespace seqto::internal
