// The data of the plots as JSON, for plots.js.
#pragma once

#include <string>
#include <vector>
#include "base/json.h"

#include "seqto/report.h"

namespace seqto::internal {

// ASCII only, with < > & as \u escapes: safe inside an HTML script element, whatever the model's names are.
std::string report_data_json(const Summary& summary);
// The plots that say something about this study, on the page and as files: "front", "latency" ...
std::vector<std::string> plot_names(const Summary& summary);

// A point as plots.js takes it, its `loss` being the one of that name.
nlohmann::ordered_json point_data(const Summary& summary, const SummaryPoint& point, const std::string& loss);
// The unit of an axis that reaches to so many bytes.
nlohmann::ordered_json size_unit(int64_t most_bytes);
// ASCII only, with < > & as \u escapes.
std::string safe_dump(const nlohmann::ordered_json& data);

}  // namespace seqto::internal
