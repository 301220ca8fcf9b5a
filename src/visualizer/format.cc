#include "visualizer/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "seqto/report.h"

namespace seqto {

std::string format_bytes(int64_t bytes) {
  constexpr std::array kUnits{"B", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  // 999.995 would be printed as 1000.00.
  while (std::abs(value) >= (unit == 0 ? 1000 : 999.995) && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, kUnits[unit]);
}

std::string format_duration(int64_t ns) {
  const auto value = static_cast<double>(ns);
  const double size = std::abs(value);
  if (size < 1e3) return fmt::format("{} ns", ns);
  if (size < 999.995e3) return fmt::format("{:.2f} µs", value / 1e3);
  if (size < 999.995e6) return fmt::format("{:.2f} ms", value / 1e6);
  if (size < 59.995e9) return fmt::format("{:.2f} s", value / 1e9);
  const auto seconds = std::llround(value / 1e9);
  if (std::abs(seconds) < 3600) return fmt::format("{} min {:02} s", seconds / 60, std::abs(seconds % 60));
  const auto minutes = std::llround(value / 60e9);
  return fmt::format("{} h {:02} min", minutes / 60, std::abs(minutes % 60));
}

std::string format_shape(const std::vector<int64_t>& shape, std::string_view between) {
  std::string text;
  for (const int64_t size : shape)
    text += fmt::format("{}{}", text.empty() ? "" : between, size < 0 ? "?" : fmt::to_string(size));
  return text;
}

namespace internal {

// What was not measured is NaN.
std::string format_figure(double value) {
  return std::isnan(value) ? "-" : fmt::format("{:.3g}", value == 0 ? 0.0 : value);
}

std::string format_percent(double share) { return std::isnan(share) ? "-" : fmt::format("{:.1f} %", share * 100); }

int screen_width(std::string_view text) {
  return static_cast<int>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string counted(size_t count, std::string_view word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

std::string clip(const std::string& text, int columns) {
  int seen = 0;
  for (size_t i = 0; i < text.size(); ++i)
    if ((text[i] & 0xC0) != 0x80 && seen++ == columns) return text.substr(0, i);
  return text;
}

std::string wrapped(const std::string& text, int columns, const std::string& indent) {
  if (columns <= 0 || screen_width(text) <= columns) return text + "\n";
  std::string lines, line;
  const auto end_line = [&] {
    lines += clip(line, columns) + "\n";  // a word may be longer than a line
    line.clear();
  };
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (!line.empty() && screen_width(line) + 1 + screen_width(word) > columns) end_line();
    line += (line.empty() ? (lines.empty() ? "" : indent) : " ") + word;
    begin = end + 1;
  }
  end_line();
  return lines;
}

std::string format_interval(const Interval& interval) {
  return fmt::format("{:.2g}{}{:.2g}", interval.low == 0 ? 0.0 : interval.low, interval.low < 0 ? " to " : "-",
                     interval.high == 0 ? 0.0 : interval.high);
}

std::string format_durations(int64_t low_ns, int64_t high_ns) {
  std::string low = format_duration(low_ns);
  const std::string high = format_duration(high_ns);
  const auto unit = [](const std::string& text) { return text.substr(text.find(' ')); };
  if (unit(low) == unit(high)) low.resize(low.find(' '));
  return low + "-" + high;
}

std::string escape_html(std::string_view text) {
  constexpr std::string_view kSpecial = "&<>\"'";
  constexpr std::array kEntities{"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (const size_t at = kSpecial.find(c); at != std::string_view::npos) out += kEntities[at];
    else out += c;
  }
  return out;
}

}  // namespace internal
}  // namespace seqto
