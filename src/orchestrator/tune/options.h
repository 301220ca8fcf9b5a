// Room: orchestrator/tune. The options of a study: what is wrong with them, what follows from them, and as the JSON
// that identifies it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "seqto/metrics.h"
#include "seqto/target.h"
#include "seqto/tune.h"

namespace seqto::internal {

inline constexpr int64_t kCalibrationSamples = 50;  // unless told otherwise, and where there are twice as many

// Throws Error{kUsage}.
void validate(const TuneOptions& options);
// The options with what was left to the strategy: schemes, jobs.
TuneOptions resolved(TuneOptions options);
// Whether the study's layers are those of tunable_form(): the published procedure takes the model as it is.
bool folds_batch_norms(const TuneOptions& options);
bool by_latency(const TuneOptions& options);  // whether it is an objective
std::optional<Target> target_of(const TuneOptions& options);
bool is_own_device(const TuneOptions& options, const std::string& device);
// Of those that calibration leaves.
int64_t search_samples(const TuneOptions& options, int64_t available);

// What there is to choose from.
std::vector<DetailedScheme> detailed_schemes(const TuneOptions& options);
bool has_static(const TuneOptions& options);  // whether layers on calibrated ranges are among it

// The caller's own strategy, or the one of that name.
std::unique_ptr<Strategy> strategy_of(const TuneOptions& options, const SearchSpace& space, const StrategyOptions& how);
// Of the task metrics asked for, those that are objectives, without intervals.
Metrics judging_metrics(const TuneOptions& options);

CalibrateOptions calibration_of(const TuneOptions& options);
// What layers have that the published procedure does not leave in float: int8, or int8_dynamic where that is asked for.
Scheme quantized_scheme(const TuneOptions& options);
// Whether ranges are those that onnxruntime's defaults find, but for rounding.
bool calibrates_by_default(const TuneOptions& options);
// Whether candidates are made as the published procedure makes them.
bool published_settings(const TuneOptions& options);
std::string options_json(const TuneOptions& options);

}  // namespace seqto::internal
