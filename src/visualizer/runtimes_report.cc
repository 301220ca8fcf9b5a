// What `validate --runtimes` found, as text and JSON.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/json.h"
#include "seqto/report.h"
#include "seqto/verify.h"
#include "visualizer/document.h"
#include "visualizer/format.h"
#include "visualizer/parity_json.h"

namespace seqto {
namespace {

using Json = nlohmann::ordered_json;
using internal::format_figure;

// Without its folder, where that tells the files apart.
std::string short_name(const std::string& path, const RuntimeMatrix& m) {
  const auto name = [](const std::string& p) { return std::filesystem::path(p).filename().string(); };
  const bool is_clear = std::ranges::all_of(m.paths, [&](const auto& p) { return p == path || name(p) != name(path); });
  return is_clear ? name(path) : path;
}

// "openvino, b.onnx"; of one file the runtime alone.
std::string name_of(const RuntimeComparison& c, const RuntimeMatrix& m) {
  return m.paths.size() > 1
             ? fmt::format("{}, {}{}", c.runtime, short_name(c.path, m), c.against.empty() ? " against the first" : "")
             : c.runtime;
}

template <class F>
std::string worst(const RuntimeComparison& c, F figure) {
  double most = 0;
  if (!c.parity) return "-";
  for (const OutputParity& o : c.parity->outputs) most = std::max(most, figure(o));
  return format_figure(most);
}

std::string agreement(const RuntimeComparison& c) {
  std::optional<double> least;
  if (c.parity)
    for (const OutputParity& o : c.parity->outputs)
      if (o.top1_agreement) least = std::min(least.value_or(1), *o.top1_agreement);
  return least ? internal::format_percent(*least) : "-";
}

std::string where_it_begins(const RuntimeComparison& c) {
  if (c.first) return fmt::format("{} {}", c.first->op_type, c.first->node);
  if (c.against.empty() || !c.parity || passed(c)) return "";
  return c.not_found.empty() ? "no node: rounding" : "not found";
}

std::string off_by(const RuntimeComparison& c) {
  return c.first ? fmt::format("{} of {}", format_figure(c.first->max_abs), format_figure(c.first->largest_abs)) : "";
}

// "openvino, b.onnx: output 'y': max difference 0.11 ..."; empty where all passed.
std::vector<std::string> runtime_failures(const RuntimeMatrix& m) {
  std::vector<std::string> failures;
  for (const RuntimeComparison& c : m.comparisons) {
    if (!c.refusal.empty()) failures.push_back(fmt::format("{} refuses it: {}", name_of(c, m), c.refusal));
    if (!c.parity) continue;
    for (const std::string& failure : parity_failures(*c.parity))
      failures.push_back(fmt::format("{}: {}", name_of(c, m), failure));
  }
  return failures;
}

void add_findings(const RuntimeMatrix& m, internal::Document& d) {
  for (const std::string& failure : runtime_failures(m)) d.findings.push_back({failure});
  for (const RuntimeComparison& c : m.comparisons) {
    if (c.first)
      d.findings.push_back({fmt::format("{} begins to differ from {} at {} {}: tensor {} of sample {}", name_of(c, m),
                                        c.against, c.first->op_type, c.first->node, c.first->tensor, c.first->sample)});
    if (!c.not_found.empty())
      d.findings.push_back({fmt::format("{}: where it begins was not found: {}", name_of(c, m), c.not_found)});
  }
}

internal::Document document_of(const RuntimeMatrix& m) {
  internal::Document d;
  d.title = "The same on several runtimes?";
  d.good = passed(m);
  const auto failed = std::ranges::count_if(m.comparisons, [](const auto& c) { return !passed(c); });
  const std::string over = fmt::format("{} over {}{}", internal::counted(m.comparisons.size(), "comparison"),
                                       internal::counted(static_cast<size_t>(m.samples), "sample"),
                                       m.random_inputs ? ", RANDOM inputs" : "");
  d.verdict = d.good ? "PASSED: " + over : fmt::format("FAILED: {} of {}", failed, over);
  add_findings(m, d);
  const bool is_pair = m.paths.size() > 1;
  internal::DocumentTable table{"", {{"runtime", TableColumn::kName}}, {}};
  if (is_pair)
    table.columns.insert(table.columns.end(), {{"file", TableColumn::kName}, {"against", TableColumn::kName}});
  table.columns.insert(table.columns.end(), {{"verdict", TableColumn::kVerdict},
                                             {"max abs", TableColumn::kFigure},
                                             {"mean abs", TableColumn::kFigure},
                                             {"top-1", TableColumn::kFigure},
                                             {"begins at", TableColumn::kName},
                                             {"off by", TableColumn::kFigure}});
  for (const RuntimeComparison& c : m.comparisons) {
    TableRow row{c.runtime};
    if (is_pair)
      row.insert(row.end(), {short_name(c.path, m), c.against.empty() ? short_name(m.paths.front(), m) : c.against});
    row.insert(row.end(),
               {passed(c) ? "ok" : "FAILED", worst(c, [](const auto& o) { return o.max_abs; }),
                worst(c, [](const auto& o) { return o.mean_abs; }), agreement(c), where_it_begins(c), off_by(c)});
    table.rows.push_back(std::move(row));
  }
  d.tables = {std::move(table)};
  for (const auto& runtime : m.runtimes)
    d.facts.push_back(fmt::format("{}: {}{}", runtime.name, runtime.description,
                                  &runtime == &m.runtimes.front() ? ", which the others are held against" : ""));
  return d;
}

Json comparison_json(const RuntimeComparison& c) {
  Json json{{"path", c.path},
            {"against", c.against.empty() ? Json() : Json(c.against)},
            {"passed", passed(c)},
            {"refusal", c.refusal.empty() ? Json() : Json(c.refusal)},
            {"error", c.against.empty() || !c.parity ? Json() : Json(c.error)},
            {"first_difference", c.first ? internal::first_difference_json(*c.first) : Json()}};
  if (!c.not_found.empty()) json["not_found"] = c.not_found;
  json["parity"] = c.parity ? internal::parity_json(*c.parity) : Json();
  return json;
}

}  // namespace

std::string runtimes_to_json(const RuntimeMatrix& m) {
  Json json{{"schema_version", 1},       {"passed", passed(m)},
            {"samples", m.samples},      {"random_inputs", m.random_inputs},
            {"runtimes", Json::array()}, {"failures", runtime_failures(m)}};
  for (const auto& runtime : m.runtimes) {
    Json entry{{"name", runtime.name}, {"runner", runtime.description}, {"comparisons", Json::array()}};
    for (const RuntimeComparison& c : m.comparisons)
      if (c.runtime == runtime.name) entry["comparisons"].push_back(comparison_json(c));
    json["runtimes"].push_back(std::move(entry));
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string runtimes_text(const RuntimeMatrix& matrix, const TextStyle& style) {
  return to_text(document_of(matrix), style);
}

void write_runtimes(const RuntimeMatrix& matrix, const std::filesystem::path& file) {
  write_document(document_of(matrix), runtimes_to_json(matrix), file);
}

}  // namespace seqto
