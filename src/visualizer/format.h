// Figures and names as text, for people; format_bytes() and format_duration() are public.
#pragma once

#include <string>
#include <string_view>

#include "seqto/statistics.h"

namespace seqto::internal {

// Three significant digits: "0.0462", "1.2e-05", "0".
std::string format_figure(double value);
// A share as percent with one digit: "9.3 %".
std::string format_percent(double share);
// Characters on screen: bytes that do not continue a UTF-8 sequence.
int screen_width(std::string_view text);
// "1 limit", "2 limits".
std::string counted(size_t count, std::string_view word);
// No more than so many characters of UTF-8.
std::string clip(const std::string& text, int columns);
// Lines of at most so many characters, each with its line end, broken at spaces; 0: one line. Lines behind the first
// begin with `indent`.
std::string wrapped(const std::string& text, int columns, const std::string& indent = "");
// "0.0002-0.00068", "-0.001 to 0.002".
std::string format_interval(const Interval& interval);
// "15.52-31.25 µs".
std::string format_durations(int64_t low_ns, int64_t high_ns);
// Text for HTML, in content as well as in quoted attributes.
std::string escape_html(std::string_view text);

}  // namespace seqto::internal
