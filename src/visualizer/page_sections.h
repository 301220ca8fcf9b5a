// Sections of report.html; each is empty where the study has nothing for it.
#pragma once

#include <string>

#include "seqto/report.h"

namespace seqto::internal {

// The selected candidate, the top three and what they are compared with, a row each.
std::string chosen_section(const Summary& summary);
// Every candidate with every figure; the columns that are asked for least are folded away.
std::string trials_table(const Summary& summary);
// Of models that answer position by position: the loss there, and its quantiles.
std::string rows_section(const Summary& summary);
// Of language models: text that goes on in other words.
std::string tokens_section(const Summary& summary);
std::string devices_section(const Summary& summary);
std::string placements_section(const Summary& summary);
// The view of single layers, which layer_view.js fills from report_data_json().
std::string layer_view_section(const Summary& summary);
std::string layers_table(const Summary& summary);
// The figures behind the plot of errors.
std::string errors_table(const Summary& summary);

}  // namespace seqto::internal
