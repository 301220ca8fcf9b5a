// Room: orchestrator/tune. The end of a study: its files, what is measured of them, its ending.
#pragma once

#include "orchestrator/tune/references.h"
#include "orchestrator/tune/searched.h"
#include "seqto/report.h"

namespace seqto::internal {

struct Report {
  Summary summary;
  ReportOptions drawing;
};

// Throws Error{kInvalidInput} where nothing can be selected: the target refuses the float model and each candidate;
// Error{kInterrupted} where the search had not found one yet.
void require_candidate(const OpenStudy& study, const Searched& searched);

// What there is no time for is left out, and the ending says so. An interrupted search has a report of what it found.
Report close(const Inputs& inputs, OpenStudy& study, References& references, const Searched& searched,
             TimeBudget& time);

// models/selected.onnx in the study's folder: the selected model under a name that does not change with the plan.
void name_selected(const Inputs& inputs, Summary& summary);

}  // namespace seqto::internal
