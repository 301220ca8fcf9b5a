// What `check` found, as text.
#include <fmt/format.h>

#include <algorithm>
#include "base/json.h"

#include "base/files.h"
#include "seqto/report.h"
#include "visualizer/document.h"
#include "visualizer/format.h"
#include "visualizer/limit_text.h"
#include "visualizer/svg_engine.h"

namespace seqto {
namespace {

using Json = nlohmann::ordered_json;

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
  d.tables = {internal::limits_table("", r.limits)};
  d.facts = {fmt::format("candidate: {}", r.measured.candidate), fmt::format("runtime: {}", r.measured.runner),
             fmt::format("machine: {}", r.measured.machine), fmt::format("seqto {}", r.measured.seqto)};
  return d;
}

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
      text += fmt::format(">\n<failure type=\"limit\" message=\"{0}\">{0}</failure>\n</testcase>\n",
                          xml(internal::limit_sentence(c)));
  }
  return text + "</testsuite>\n</testsuites>\n";
}

}  // namespace

std::vector<std::string> gate_failures(const GateResult& r) { return internal::limit_failures(r.limits); }

std::string gate_to_json(const GateResult& r) {
  Json figures = Json::object();
  for (const auto& [name, f] : r.measured.figures)
    figures[name] = {{"value", f.value}, {"interval", internal::interval_json(f.interval)}};
  Json json{{"schema_version", 1},
            {"passed", passed(r)},
            {"candidate", r.measured.candidate},
            {"random_inputs", r.measured.random_inputs},
            {"model_sha256", r.measured.model_sha256},
            {"limits", internal::limits_json(r.limits)},
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
