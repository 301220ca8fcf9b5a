// Sections of report.html; each is empty where the study has nothing for it.
#pragma once

#include <string>

#include "seqto/report.h"

namespace seqto::internal {

std::string devices_section(const Summary& summary);
std::string placements_section(const Summary& summary);
// The view of single layers, which layer_view.js fills from report_data_json().
std::string layer_view_section(const Summary& summary);
std::string layers_table(const Summary& summary);
// The figures behind the plot of errors.
std::string errors_table(const Summary& summary);

}  // namespace seqto::internal
