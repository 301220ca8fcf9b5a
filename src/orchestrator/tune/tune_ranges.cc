#include "orchestrator/tune/tune_ranges.h"

#include "orchestrator/study/notes.h"
#include "orchestrator/tune/tune_options.h"

namespace seqto::internal {
namespace {

Ranges noted_or_calibrated(const std::string& note, const CalibrateOptions& options, const Model& model,
                           const Dataset& data, std::span<const int64_t> samples, Runner& runner, Study& study,
                           const Env& env) {
  if (const auto* text = study.noted(note)) return ranges_from_json(*text);
  Ranges ranges = calibrate(model, {data, samples, runner, env}, options);
  study.note(note, ranges_to_json(ranges));
  return ranges;
}

}  // namespace

Ranges tuned_ranges(const TuneOptions& options, const Model& model, const Dataset& data,
                    std::span<const int64_t> samples, Runner& runner, Study& study, const Env& env) {
  return noted_or_calibrated("ranges", calibration_of(options), model, data, samples, runner, study, env);
}

std::map<std::string, Ranges> named_ranges(const TuneOptions& options, const Ranges& ranges, const Model& model,
                                           const Dataset& data, std::span<const int64_t> samples, Runner& runner,
                                           Study& study, const Env& env) {
  std::map<std::string, Ranges> result;
  const CalibrateOptions own = calibration_of(options);
  for (const DetailedScheme& scheme : detailed_schemes(options)) {
    if (!scheme.fields.method || result.contains(*scheme.fields.method)) continue;
    const std::string& name = *scheme.fields.method;
    const CalibrateOptions named = calibration_named(name, own);
    const bool has_it = named.method == own.method && named.percentile == own.percentile;
    result[name] =
        has_it ? ranges : noted_or_calibrated("ranges of " + name, named, model, data, samples, runner, study, env);
  }
  return result;
}

}  // namespace seqto::internal
