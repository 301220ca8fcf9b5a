// Room: orchestrator/tune. What the candidates of a study are made of, and what they are compared with.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/tune/evaluate.h"
#include "orchestrator/tune/float_outputs.h"
#include "orchestrator/tune/open_study.h"
#include "orchestrator/tune/workbench.h"
#include "seqto/improve.h"

namespace seqto::internal {

// The float model that is quantized.
struct FloatModel {
  Model model;
  std::optional<Model> original;  // before it was rewritten, where it was
  QuantizeOptions quantize;       // of it: layers that smoothing adds are excluded

  const Model& as_given() const { return original ? *original : model; }
};

// With onnxruntime's defaults, its oddities too, of the model as it was given.
struct Published {
  Plan plan;
  Ranges ranges;
  CalibrateOptions calibrate;  // that found them
  QuantizeOptions quantize{.compat_onnxruntime = true};
  Model model;
};

struct Learned {
  Ranges ranges;                         // as calibrated
  std::map<std::string, Ranges> in_use;  // by LayerOptions::method; "": improved ones
  SchemeCorrections corrections;
  double seconds = 0;  // what improving took
};

struct References {
  std::vector<Place> places;  // where candidates are measured
  FloatModel base;
  Learned learned;
  Quantizer quantizer;
  Plan full;                           // every layer
  std::optional<Published> published;  // where it was made

  // The plan as its file says it, with what was found for its layers; its hash is the candidate's id.
  Plan written(const Plan& plan) const { return with_fields(learned.corrections, plan); }
  // The model of a plan, one at a time.
  Model candidate(const Plan& plan) { return quantizer.quantize(plan, {wanted(learned.corrections, plan)}); }
};

// Trials "float", "published" and "full", and in a hurry that of the search's first plan; notes of what was learned for
// them. Throws Error{kInvalidInput} where the fully quantized model does not run.
References measure_references(const Inputs& inputs, OpenStudy& study, TimeBudget& time);

// The same of a study whose search has begun: nothing is measured and nothing noted.
References begun_references(const Inputs& inputs, OpenStudy& study, TimeBudget& time, FloatRuns runs);

Workbench workbench(const Inputs& inputs, const FloatModel& base, Study& study, TimeBudget& time);
// May take a calibration of its own.
Published published_model(const Inputs& inputs, const References& references);

}  // namespace seqto::internal
