// Room: orchestrator/tune. The recipes that a study's plans are written with (recipe.h).
#pragma once

#include <map>
#include <string>

#include "orchestrator/tune/samples.h"
#include "seqto/recipe.h"
#include "seqto/tune.h"

namespace seqto::internal {

// What all plans of the study have in common. `opsets`: as Recipe has them; `ranges`: by method, as the quantizer
// has them. What was learned goes to the folder of the plans.
struct StudyFindings {
  const std::vector<int64_t>& opsets;
  std::string model_sha256;
  const Samples& samples;
  bool rewritten;  // the float model, before calibration
  const std::map<std::string, Ranges>& ranges;
  const SchemeCorrections& corrections;
};
Recipe study_recipe(const TuneOptions& options, const StudyFindings& findings);

// Of one of its plans. `own`: the file of the corrections that it alone takes; empty: it takes none.
Recipe plan_recipe(const Recipe& study, const StudyFindings& findings, const Plan& plan,
                   const std::filesystem::path& own, const std::filesystem::path& folder);

// Of the published quantization of the model as it was given, with these ranges.
Recipe published_recipe(const Recipe& study, const Plan& plan, const Ranges& ranges,
                        const std::filesystem::path& folder);

}  // namespace seqto::internal
