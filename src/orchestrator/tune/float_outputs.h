// Room: orchestrator/tune. What the float model gives on every device: the reference of every loss.
#pragma once

#include "orchestrator/tune/evaluate.h"
#include "orchestrator/tune/open_study.h"

namespace seqto::internal {

// The devices with the samples that each part of a study is measured on, and the outputs there, made anew in every run;
// trial "float". The loss that the study goes by is settled with them (task.h).
std::vector<Place> measure_float(const Inputs& inputs, OpenStudy& study);

// Of a study that has the trial: what nobody is to measure on has no outputs.
enum class FloatRuns { kNone, kSearch };  // search: and acceptance samples
std::vector<Place> measure_float_again(const Inputs& inputs, OpenStudy& study, FloatRuns runs);

}  // namespace seqto::internal
