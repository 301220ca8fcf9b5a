// The text of the ECharts library, which cmake/echarts.cmake puts into the program for offline HTML reports.
#pragma once

#include <string_view>

namespace seqto::internal {

// ECharts as published, minified, about 1 MB; lives as long as the program.
std::string_view echarts_js();

}  // namespace seqto::internal
