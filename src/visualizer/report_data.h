// The data of the three plots as JSON, for plots.js.
#pragma once

#include <string>

#include "seqto/report.h"

namespace seqto::internal {

// ASCII only, with < > & as \u escapes: safe inside an HTML script element, whatever the model's names are.
std::string report_data_json(const Summary& summary);

}  // namespace seqto::internal
