// Room: base. Order statistics of small samples.
#pragma once

#include <utility>
#include <vector>

namespace seqto {

// The q-quantile (0..1) with linear interpolation between order statistics, as numpy's default. `values` is not empty.
double quantile(std::vector<double> values, double q);
inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

}  // namespace seqto
