// What `validate` found, as text.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include "base/json.h"

#include "seqto/report.h"
#include "visualizer/document.h"
#include "visualizer/format.h"
#include "visualizer/limit_text.h"
#include "visualizer/parity_json.h"

namespace seqto {
namespace {

using Json = nlohmann::ordered_json;
using internal::counted;
using internal::format_figure;
using internal::format_percent;

constexpr auto kFigure = TableColumn::kFigure;

std::string agreement(const OutputParity& o) { return o.top1_agreement ? format_percent(*o.top1_agreement) : "-"; }

std::string non_finite(const OutputParity& o) {
  std::string words;
  auto add = [&](const char* who, const NonFinite& n) {
    if (n.nan) words += fmt::format("{}{} NaN in the {}", words.empty() ? "" : ", ", n.nan, who);
    if (n.infinite) words += fmt::format("{}{} infinite in the {}", words.empty() ? "" : ", ", n.infinite, who);
  };
  add("reference", o.reference);
  add("candidate", o.candidate);
  return words;
}

internal::DocumentTable task_table(const TaskParity& task) {
  internal::DocumentTable table{"task metrics",
                                {{"metric", TableColumn::kName},
                                 {"reference", kFigure},
                                 {"candidate", kFigure},
                                 {"worse by", kFigure},
                                 {"95 % interval", kFigure, 2},
                                 {"McNemar's p", kFigure, 1}},
                                {}};
  for (const auto& [name, value] : task.candidate.metrics) {
    const auto before = task.reference.metrics.find(name);
    const auto drop = task.drops.find(name);
    const bool is_first_class = name == "top1" || name == "accuracy";
    table.rows.push_back({name,
                          before == task.reference.metrics.end() ? "-" : internal::figure_text(name, before->second),
                          internal::figure_text(name, value),
                          drop == task.drops.end() ? "-" : internal::figure_text(name, drop->second.value),
                          drop == task.drops.end() ? "-" : internal::figure_text(name, drop->second.interval),
                          is_first_class && task.mcnemar ? format_figure(*task.mcnemar) : "-"});
  }
  return table;
}

Json task_json(const TaskParity& task) {
  Json json = Json::object();
  for (const auto& [name, value] : task.candidate.metrics) {
    Json& metric = json[name];
    const auto before = task.reference.metrics.find(name);
    metric = {{"reference", before == task.reference.metrics.end() ? Json() : Json(before->second)},
              {"candidate", value},
              {"lower_is_better", task.candidate.lower_is_better.contains(name)},
              {"drop", nullptr},
              {"interval", nullptr}};
    const auto drop = task.drops.find(name);
    if (drop == task.drops.end()) continue;
    metric["drop"] = drop->second.value;
    metric["interval"] = internal::interval_json(drop->second.interval);
  }
  return json;
}

std::string tolerance(double most) { return std::isinf(most) ? "any" : fmt::format("{}", most); }

internal::Document document_of(const Parity& p) {
  internal::Document d;
  d.title = "Parity of two models";
  d.good = passed(p);
  for (const std::string& failure : parity_failures(p)) d.findings.push_back({failure});
  const std::string samples = counted(static_cast<size_t>(p.samples), "sample");
  const auto outside = std::ranges::count_if(p.outputs, [&](const auto& o) { return !passed(o, p.options); });
  d.verdict = d.good ? fmt::format("PASSED: {} over {}", counted(p.outputs.size(), "output"), samples)
                     : fmt::format("FAILED: {} of {} over {}", outside, counted(p.outputs.size(), "output"), samples);
  if (const size_t limits = p.task ? p.task->limits.size() : 0; limits > 0)
    d.verdict += fmt::format(", {} of {} not met", std::ranges::count(p.task->limits, false, &CheckedLimit::met),
                             counted(limits, "limit"));
  if (p.random_inputs) d.verdict += ", RANDOM inputs";
  internal::DocumentTable outputs{"",
                                  {{"output", TableColumn::kName},
                                   {"verdict", TableColumn::kVerdict},
                                   {"max abs", kFigure},
                                   {"mean abs", kFigure},
                                   {"top-1", kFigure, 1},
                                   {"not finite", kFigure, 2}},
                                  {}};
  for (const OutputParity& o : p.outputs)
    outputs.rows.push_back({o.name, passed(o, p.options) ? "ok" : "FAILED", format_figure(o.max_abs),
                            format_figure(o.mean_abs), agreement(o), fmt::format("{}", o.incomparable)});
  internal::DocumentTable worst{"worst samples",
                                {{"sample", TableColumn::kName},
                                 {"output", TableColumn::kName},
                                 {"max abs", kFigure},
                                 {"mean abs", kFigure},
                                 {"not finite", kFigure, 1}},
                                {}};
  for (const SampleParity& s : p.worst)
    worst.rows.push_back(
        {s.name, s.output, format_figure(s.max_abs), format_figure(s.mean_abs), fmt::format("{}", s.incomparable)});
  d.tables = {std::move(outputs), std::move(worst)};
  if (p.task && !p.task->candidate.metrics.empty()) d.tables.push_back(task_table(*p.task));
  if (p.task && !p.task->limits.empty()) d.tables.push_back(internal::limits_table("limits", p.task->limits));
  d.facts = {
      p.reference_runner.empty() ? "reference: " + p.reference
                                 : fmt::format("reference: {} on {}", p.reference, p.reference_runner),
      fmt::format("candidate: {} on {}", p.candidate, p.candidate_runner),
      fmt::format("allowed: max abs {}, mean abs {}", tolerance(p.options.abs_tol), tolerance(p.options.mean_tol))};
  return d;
}

Json non_finite_json(const NonFinite& n) { return {{"nan", n.nan}, {"infinite", n.infinite}}; }

Json output_json(const OutputParity& o, const ParityOptions& options) {
  Json json{{"name", o.name},
            {"passed", passed(o, options)},
            {"values", o.values},
            {"max_abs", o.max_abs},
            {"mean_abs", o.mean_abs},
            {"top1_agreement", nullptr},
            {"max_at",
             {{"sample", o.max_sample},
              {"index", o.max_index},
              {"reference", o.max_reference},
              {"candidate", o.max_candidate}}},
            {"reference", non_finite_json(o.reference)},
            {"candidate", non_finite_json(o.candidate)},
            {"incomparable", o.incomparable}};
  if (o.top1_agreement) json["top1_agreement"] = *o.top1_agreement;
  if (o.incomparable) json["first_incomparable"] = o.first_incomparable;
  return json;
}

}  // namespace

std::vector<std::string> parity_failures(const Parity& p) {
  std::vector<std::string> failures;
  for (const OutputParity& o : p.outputs) {
    if (passed(o, p.options)) continue;
    std::vector<std::string> reasons;
    if (o.incomparable)
      reasons.push_back(fmt::format("values that are not finite ({}), first in sample '{}'; finite ones expected",
                                    non_finite(o), o.first_incomparable));
    if (o.max_abs > p.options.abs_tol)
      reasons.push_back(fmt::format("max abs difference {} at sample '{}' ({} instead of {}); at most {} expected",
                                    format_figure(o.max_abs), o.max_sample, format_figure(o.max_candidate),
                                    format_figure(o.max_reference), p.options.abs_tol));
    if (o.mean_abs > p.options.mean_tol)
      reasons.push_back(
          fmt::format("mean abs difference {}; at most {} expected", format_figure(o.mean_abs), p.options.mean_tol));
    if (o.top1_agreement && *o.top1_agreement < p.options.min_top1_agreement)
      reasons.push_back(fmt::format("top-1 agreement {}; at least {} expected", format_percent(*o.top1_agreement),
                                    format_percent(p.options.min_top1_agreement)));
    failures.push_back(fmt::format("output '{}': {}", o.name, fmt::join(reasons, "; ")));
  }
  if (p.task)
    for (std::string& failure : internal::limit_failures(p.task->limits)) failures.push_back(std::move(failure));
  return failures;
}

Json internal::parity_json(const Parity& p) {
  Json json{{"schema_version", 1},
            {"passed", passed(p)},
            {"reference", {{"path", p.reference}, {"runner", p.reference_runner}}},
            {"candidate", {{"path", p.candidate}, {"runner", p.candidate_runner}}},
            {"samples", p.samples},
            {"random_inputs", p.random_inputs},
            {"abs_tol", p.options.abs_tol},
            {"mean_tol", p.options.mean_tol},
            {"min_top1_agreement", p.options.min_top1_agreement},
            {"outputs", Json::array()},
            {"worst", Json::array()},
            {"failures", parity_failures(p)}};
  for (const OutputParity& o : p.outputs) json["outputs"].push_back(output_json(o, p.options));
  for (const SampleParity& s : p.worst)
    json["worst"].push_back({{"index", s.index},
                             {"sample", s.name},
                             {"output", s.output},
                             {"max_abs", s.max_abs},
                             {"mean_abs", s.mean_abs},
                             {"incomparable", s.incomparable}});
  if (p.task) {
    json["metrics"] = task_json(*p.task);
    json["mcnemar"] = p.task->mcnemar ? Json(*p.task->mcnemar) : Json();
    json["limits"] = internal::limits_json(p.task->limits);
  }
  return json;
}

std::string parity_to_json(const Parity& parity) {
  return internal::parity_json(parity).dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string parity_text(const Parity& parity, const TextStyle& style) { return to_text(document_of(parity), style); }

void write_parity(const Parity& parity, const std::filesystem::path& file) {
  write_document(document_of(parity), parity_to_json(parity), file);
}

}  // namespace seqto
