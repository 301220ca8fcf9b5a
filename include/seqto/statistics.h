// Room: base. How far a figure that was measured on a sample can be trusted.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace seqto {

// What the data leave open of a figure.
struct Interval {
  double low = 0, high = 0;
  bool operator==(const Interval&) const = default;
  bool holds(double value) const { return low <= value && value <= high; }
};

// The 95 % interval of the mean of what `values` were drawn from: percentile bootstrap (Efron 1979), 2,000 resamples,
// always the same ones for the same number of values. For a paired comparison give the differences. A single value, or
// none, says nothing of its spread: the interval is the value, or 0.
// Values with one number among `blocks` are drawn together, as what is alike is (Field and Welsh 2007); empty, or not
// as many: each is drawn alone.
using Blocks = std::vector<int64_t>;
Interval bootstrap_mean(std::span<const double> values, const Blocks& blocks = {});
// The same for several figures of the same samples: all columns have one length. Resamples are drawn once.
std::vector<Interval> bootstrap_means(std::span<const std::vector<double>> columns, const Blocks& blocks = {});

// The means behind them: of each column on each resample. What columns of one length differ by has the interval
// percentile_interval() of the differences of their means.
std::vector<std::vector<double>> resampled_means(std::span<const std::vector<double>> columns,
                                                 const Blocks& blocks = {});

// For figures that are no mean: `resamples` bootstrap samples of `size` values, as counts of how often each was drawn.
// Always the same ones for the same size and blocks, so that two figures' values on them are paired.
void for_each_resample(size_t size, int resamples, const std::function<void(std::span<const double> counts)>& visit,
                       const Blocks& blocks = {});

// Where a sample comes from: windows of one file or recording are alike.
struct Origin {
  int64_t source = -1;   // the file; -1: the sample stands alone
  int64_t position = 0;  // in it
};
// Samples of one source are a block, or several that follow each other where it has more than a twentieth of all.
// Empty where each stands alone.
Blocks blocks_of(std::span<const Origin> origins);
constexpr int kReplicates = 1000;
// The 95 % interval of a figure from its values on resamples; not empty.
Interval percentile_interval(std::span<const double> replicates);

// McNemar's exact test: of the pairs in which only one of two was right, `first` were the first's and `second` the
// second's. The two-sided probability of a difference at least as large when both are equally good.
double mcnemar(int64_t first, int64_t second);

}  // namespace seqto
