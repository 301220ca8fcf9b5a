// What `check` found, as text.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "seqto/report.h"
#include "seqto/verdicts.h"
#include "visualizer/document.h"
#include "visualizer/format.h"
#include "visualizer/svg_engine.h"

namespace seqto {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kFigure = TableColumn::kFigure;

bool is_share(const std::string& figure) {
  if (figure.ends_with("_drop")) return is_share(figure.substr(0, figure.size() - 5));
  return higher_is_better(figure) || figure.ends_with("_ratio") || figure.ends_with("_disagreement");
}

std::string value_text(const std::string& figure, double value) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  if (figure == "size_bytes") return format_bytes(std::llround(value));
  if (figure == "latency_ns") return format_duration(std::llround(value));
  if (is_share(figure)) return fmt::format("{:.4g} %", 100 * value);
  return fmt::format("{:.4g}", value);
}

std::string interval_text(const CheckedLimit& c) {
  if (!c.found.interval) return "-";
  return fmt::format("{} to {}", value_text(c.limit.figure, c.found.interval->low),
                     value_text(c.limit.figure, c.found.interval->high));
}

std::string found_text(const CheckedLimit& c) { return value_text(c.limit.figure, c.found.value); }
std::string bound_text(const CheckedLimit& c) {
  return fmt::format("{} {}", c.limit.at_most ? "at most" : "at least", value_text(c.limit.figure, c.limit.bound));
}

// By how much; where only the interval is on the wrong side, that is said.
std::string excess_text(const CheckedLimit& c) {
  if (c.met) return "-";
  if (std::isfinite(c.found.value) && c.excess() <= 0)
    return fmt::format("within, but not all of {}", interval_text(c));
  return fmt::format("{} too {}", value_text(c.limit.figure, c.excess()), c.limit.at_most ? "much" : "little");
}

std::string sentence(const CheckedLimit& c) {
  return fmt::format("{}: {} found; {} allowed by {}; {}", c.limit.figure, found_text(c), bound_text(c),
                     c.limit.asked_by, excess_text(c));
}

internal::Document document_of(const GateResult& r) {
  internal::Document d;
  d.title = fmt::format("Gate: {}", r.measured.candidate);
  d.good = passed(r);
  const auto failed = std::ranges::count(r.limits, false, &CheckedLimit::met);
  d.verdict = d.good ? fmt::format("PASSED: {} met", internal::counted(r.limits.size(), "limit"))
                     : fmt::format("FAILED: {} of {} not met", failed, internal::counted(r.limits.size(), "limit"));
  if (r.measured.random_inputs) d.verdict += ", RANDOM inputs: losses mean nothing";
  for (const std::string& failure : gate_failures(r)) d.findings.push_back({failure});
  for (const std::string& note : r.notes) d.findings.push_back({note});
  internal::DocumentTable table{"",
                                {{"figure"},
                                 {"verdict", TableColumn::kVerdict},
                                 {"asked by", TableColumn::kText, 2},
                                 {"found", kFigure},
                                 {"95 % interval", kFigure, 3},
                                 {"allowed", kFigure},
                                 {"off by", kFigure, 1}},
                                {}};
  for (const CheckedLimit& c : r.limits)
    table.rows.push_back({c.limit.figure, c.met ? "ok" : "FAILED", c.limit.asked_by, found_text(c), interval_text(c),
                          bound_text(c), excess_text(c)});
  d.tables = {std::move(table)};
  d.facts = {fmt::format("candidate: {}", r.measured.candidate), fmt::format("runtime: {}", r.measured.runner),
             fmt::format("machine: {}", r.measured.machine), fmt::format("seqto {}", r.measured.seqto)};
  return d;
}

Json interval_json(const std::optional<Interval>& i) { return i ? Json{i->low, i->high} : Json(); }

std::string xml(const std::string& text) { return internal::escape_html(internal::xml_text(text)); }

std::string junit(const GateResult& r) {
  const auto failed = std::ranges::count(r.limits, false, &CheckedLimit::met);
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"seqto check {}\" tests=\"{}\" "
      "failures=\"{}\" errors=\"0\" skipped=\"0\">\n",
      xml(r.measured.candidate), r.limits.size(), failed);
  for (const CheckedLimit& c : r.limits) {
    const std::string name = fmt::format("{} ({})", c.limit.figure, c.limit.asked_by);
    text += fmt::format("<testcase classname=\"seqto.check\" name=\"{}\"", xml(name));
    if (c.met) text += "/>\n";
    else
      text += fmt::format(">\n<failure type=\"limit\" message=\"{0}\">{0}</failure>\n</testcase>\n", xml(sentence(c)));
  }
  return text + "</testsuite>\n</testsuites>\n";
}

}  // namespace

std::vector<std::string> gate_failures(const GateResult& r) {
  std::vector<std::string> failures;
  for (const CheckedLimit& c : r.limits)
    if (!c.met) failures.push_back(sentence(c));
  return failures;
}

std::string gate_to_json(const GateResult& r) {
  Json limits = Json::array(), figures = Json::object();
  for (const CheckedLimit& c : r.limits)
    limits.push_back({{"figure", c.limit.figure},
                      {"met", c.met},
                      {"found", c.found.value},
                      {"interval", interval_json(c.found.interval)},
                      {"allowed", c.limit.bound},
                      {"kind", c.limit.at_most ? "at_most" : "at_least"},
                      {"excess", c.met ? Json() : Json(c.excess())},
                      {"asked_by", c.limit.asked_by}});
  for (const auto& [name, f] : r.measured.figures)
    figures[name] = {{"value", f.value}, {"interval", interval_json(f.interval)}};
  Json json{{"schema_version", 1},
            {"passed", passed(r)},
            {"candidate", r.measured.candidate},
            {"random_inputs", r.measured.random_inputs},
            {"model_sha256", r.measured.model_sha256},
            {"limits", limits},
            {"failures", gate_failures(r)},
            {"notes", r.notes},
            {"figures", figures}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string gate_text(const GateResult& result, const TextStyle& style) { return to_text(document_of(result), style); }

void write_gate(const GateResult& result, const std::filesystem::path& file) {
  write_document(document_of(result), gate_to_json(result), file);
}

void write_gate_markdown(const GateResult& result, const std::filesystem::path& file) {
  write_file_atomic(file, to_markdown(document_of(result)));
}

void write_gate_junit(const GateResult& result, const std::filesystem::path& file) {
  write_file_atomic(file, junit(result));
}

}  // namespace seqto
