// report.html as text.
#pragma once

#include <string>

#include "seqto/report.h"

namespace seqto::internal {

// One page that needs nothing from elsewhere. `data_json` is report_data_json().
std::string render_page(const Summary& summary, const std::string& data_json);

}  // namespace seqto::internal
