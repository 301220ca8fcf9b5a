// Draws plots without a browser: ECharts' own SVG renderer inside an embedded JavaScript engine.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace seqto::internal {

// One SVG document for each of `plots` (names of functions in plots.js), from report_data_json().
// About 0.2 s for the library and some hundredths a plot. Throws Error{kInternal} with the script's words.
std::vector<std::string> draw_svgs(const std::string& data_json, const std::vector<std::string>& plots);

// The engine's text as UTF-8 that XML allows: surrogate pairs joined, forbidden characters replaced by U+FFFD.
std::string xml_text(std::string_view cesu8);

}  // namespace seqto::internal
