// Room: quantization/calibration. From the histogram of a tensor to the range that is quantized.
// docs/design/calibration.md has the formulas.
#pragma once

#include "seqto/calibrate.h"

namespace seqto::internal {

// `lowest`, `highest`: the extreme values seen; every result lies within them. onnxruntime's rule: the lower edge of
// the bin in which the share is reached. `symmetric`: the histogram is of magnitudes.
Range percentile_range(const Histogram& histogram, float lowest, float highest, double percentile, bool symmetric);

// Minimises the KL divergence between the histogram with its tails put on the ends and its copy in `quantized_bins`
// steps. Histograms of no more bins than that keep the whole range.
Range entropy_range(const Histogram& histogram, float lowest, float highest, int quantized_bins);

// Minimises the sum over the bins of count * (centre - quantized centre)^2, quantized in options.activation_type; to a
// scale that is a power of two, where options ask for it.
Range mse_range(const Histogram& histogram, float lowest, float highest, const CalibrateOptions& options,
                bool symmetric);

// Outer edges, mean and standard deviation; onnxruntime's arithmetic.
Range distribution_range(const Histogram& histogram);

}  // namespace seqto::internal
