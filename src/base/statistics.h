// Room: base. Order statistics of small samples.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace seqto {

// The q-quantile (0..1) with linear interpolation between order statistics, as numpy's default. `values` is not empty.
double quantile(std::vector<double> values, double q);
inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

// The upper end of the exact 95 % interval of a share that `count` of `samples` showed (Clopper and Pearson 1934).
double most_of(int64_t count, int64_t samples);

// How many times as wide as a bootstrap's an interval of the mean of `values` values has to be: by Student's t
// (Hesterberg, What Teachers Should Know About the Bootstrap, 2015, section 5.2). From 2 values on.
double expansion(int64_t values);

}  // namespace seqto
