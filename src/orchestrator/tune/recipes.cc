#include "orchestrator/tune/recipes.h"

#include <algorithm>

#include "base/files.h"
#include "orchestrator/tune/improvements.h"
#include "orchestrator/tune/tune_options.h"

namespace seqto::internal {
namespace {

StoredFile store_corrections(const std::filesystem::path& folder, const std::filesystem::path& file) {
  return store(folder, "corrections", ".npz", read_file(file));
}

}  // namespace

Recipe study_recipe(const TuneOptions& o, const StudyFindings& findings) {
  Recipe recipe{.quantize = o.quantize,
                .opsets = findings.opsets,
                .fold_batch_norms = folds_batch_norms(o),
                .improvers = o.improvers,
                .rewritten_for = quantized_scheme(o),
                .calibrate = calibration_of(o),
                .model_sha256 = findings.model_sha256,
                .samples_sha256 = samples_sha256(*findings.samples.data, findings.samples.split.calibration)};
  if (!findings.rewritten) recipe.improvers.center = recipe.improvers.equalize = recipe.improvers.smooth = false;
  for (int64_t index : findings.samples.split.calibration)
    recipe.calibration_samples.push_back(index - findings.samples.calibration_begin);
  const auto folder = o.output / "plans";
  for (const auto& [method, ranges] : findings.ranges) recipe.ranges[method] = store_ranges(folder, ranges);
  if (!findings.corrections.empty()) recipe.corrections.push_back(store_corrections(folder, corrections_file(o)));
  return recipe;
}

Recipe plan_recipe(const Recipe& study, const StudyFindings& findings, const Plan& plan,
                   const std::filesystem::path& own, const std::filesystem::path& folder) {
  Recipe recipe = study;
  recipe.plan = with_fields(findings.corrections, plan);
  if (!own.empty()) recipe.corrections.push_back(store_corrections(folder, own));
  return recipe;
}

Recipe published_recipe(const Recipe& study, const Plan& plan, const Ranges& ranges,
                        const std::filesystem::path& folder) {
  Recipe recipe = study;
  recipe.plan = plan;
  recipe.quantize = {};
  recipe.corrections.clear();
  recipe.ranges = {{"", store_ranges(folder, ranges)}};
  // Where the study rewrote the model, the original was calibrated for this alone.
  if (study.improvers.rewrites()) recipe.calibrate = {};
  recipe.improvers = {};
  return recipe;
}

}  // namespace seqto::internal
