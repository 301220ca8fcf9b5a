#include "visualizer/limit_text.h"

#include <fmt/format.h>

#include <cmath>

#include "metrics/limits.h"
#include "seqto/report.h"

namespace seqto::internal {
namespace {

bool is_share(const std::string& figure) {
  if (const auto metric = dropped_metric(figure)) return is_share(*metric);
  return higher_is_better(figure) || figure.ends_with("_ratio") || figure.ends_with("_disagreement");
}

}  // namespace

std::string figure_text(const std::string& figure, double value) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  if (figure == "size_bytes") return format_bytes(std::llround(value));
  if (figure.ends_with("latency_ns")) return format_duration(std::llround(value));
  if (is_share(figure)) return fmt::format("{:.4g} %", 100 * value);
  return fmt::format("{:.4g}", value);
}

std::string figure_text(const std::string& figure, const std::optional<Interval>& interval) {
  if (!interval) return "-";
  return fmt::format("{} to {}", figure_text(figure, interval->low), figure_text(figure, interval->high));
}

namespace {

std::string found_text(const CheckedLimit& c) { return figure_text(c.limit.figure, c.found.value); }
std::string bound_text(const CheckedLimit& c) {
  return fmt::format("{} {}", c.limit.at_most ? "at most" : "at least", figure_text(c.limit.figure, c.limit.bound));
}

// By how much; where only the interval is on the wrong side, that is said.
std::string excess_text(const CheckedLimit& c) {
  if (c.met) return "-";
  if (std::isnan(c.found.value)) return "not a number";
  if (std::isfinite(c.found.value) && c.excess() <= 0)
    return fmt::format("within, but not all of {}", figure_text(c.limit.figure, c.found.interval));
  return fmt::format("{} too {}", figure_text(c.limit.figure, c.excess()), c.limit.at_most ? "much" : "little");
}

}  // namespace

std::string limit_sentence(const CheckedLimit& c) {
  return fmt::format("{}: {} found; {} allowed by {}; {}", c.limit.figure, found_text(c), bound_text(c),
                     c.limit.asked_by, excess_text(c));
}

DocumentTable limits_table(const std::string& title, std::span<const CheckedLimit> limits) {
  constexpr auto kFigure = TableColumn::kFigure;
  DocumentTable table{title,
                      {{"figure"},
                       {"verdict", TableColumn::kVerdict},
                       {"asked by", TableColumn::kText, 2},
                       {"found", kFigure},
                       {"95 % interval", kFigure, 3},
                       {"allowed", kFigure},
                       {"off by", kFigure, 1}},
                      {}};
  for (const CheckedLimit& c : limits)
    table.rows.push_back({c.limit.figure, c.met ? "ok" : "FAILED", c.limit.asked_by, found_text(c),
                          figure_text(c.limit.figure, c.found.interval), bound_text(c), excess_text(c)});
  return table;
}

std::vector<std::string> limit_failures(std::span<const CheckedLimit> limits) {
  std::vector<std::string> failures;
  for (const CheckedLimit& c : limits)
    if (!c.met) failures.push_back(limit_sentence(c));
  return failures;
}

nlohmann::ordered_json limits_json(std::span<const CheckedLimit> limits) {
  using Json = nlohmann::ordered_json;
  Json json = Json::array();
  for (const CheckedLimit& c : limits)
    json.push_back({{"figure", c.limit.figure},
                    {"met", c.met},
                    {"found", c.found.value},
                    {"interval", interval_json(c.found.interval)},
                    {"allowed", c.limit.bound},
                    {"kind", c.limit.at_most ? "at_most" : "at_least"},
                    {"excess", c.met ? Json() : Json(c.excess())},
                    {"asked_by", c.limit.asked_by}});
  return json;
}

nlohmann::ordered_json interval_json(const std::optional<Interval>& i) {
  return i ? nlohmann::ordered_json{i->low, i->high} : nlohmann::ordered_json();
}

}  // namespace seqto::internal
