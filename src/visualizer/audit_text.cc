// What an audit found, as JSON and for a terminal.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/files.h"
#include "base/json.h"
#include "metrics/loss/loss_fields.h"
#include "seqto/report.h"
#include "seqto/search.h"
#include "visualizer/format.h"
#include "visualizer/points.h"

namespace seqto {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kFigure = TableColumn::kFigure;

Json measurement_json(const Measurement& m) {
  Json json{{"losses", Json::object()}, {"metrics", m.metrics}, {"intervals", Json::object()}};
  for (const LossField& field : kLossFields) json["losses"][std::string(field.name)] = m.losses.*field.value;
  for (const auto& [name, interval] : m.intervals) json["intervals"][name] = {interval.low, interval.high};
  return json;
}

std::string lines(std::vector<TableColumn> columns, std::vector<TableRow> rows, const TextStyle& style) {
  std::string text;
  for (const auto& line : table_lines(std::move(columns), std::move(rows), style)) text += line + "\n";
  return text;
}

using NamedMeasurement = std::pair<const char*, const Measurement*>;

std::string losses_table(const std::string& loss, const std::vector<NamedMeasurement>& measured,
                         const TextStyle& style) {
  const Measurement& first = *measured.front().second;
  const bool labels = first.metrics.contains("top1");
  const bool classes = internal::has_classes(first, loss);
  std::vector<TableColumn> columns{{"arithmetic"}, {loss, kFigure}};
  if (classes) columns.push_back({"top1_disagreement", kFigure});
  if (labels) columns.push_back({"top1", kFigure});
  std::vector<TableRow> rows;
  for (const auto& [name, m] : measured) {
    rows.push_back({name, internal::format_figure(objective(*m, loss))});
    if (classes) rows.back().push_back(internal::format_percent(m->losses.top1_disagreement));
    if (labels) rows.back().push_back(internal::format_percent(m->metrics.at("top1")));
  }
  return lines(std::move(columns), std::move(rows), style);
}

// Two digits, however small: one sum cut off in a million can be the one that counts.
std::string percent(int64_t part, int64_t all) {
  return fmt::format("{:.2g} %", all > 0 ? 100 * static_cast<double>(part) / static_cast<double>(all) : 0);
}

std::string not_emulated_text(const Audit& audit) {
  std::map<std::string, int> counts;
  for (const AuditedLayer& layer : audit.layers)
    if (!layer.is_emulated()) ++counts[fmt::format("{}: {}", layer.op_type, layer.not_emulated_because)];
  std::string text;
  for (const auto& [what, count] : counts)
    text += fmt::format("{} not emulated, in every row as computed here ({})\n", count, what);
  return text;
}

}  // namespace

std::string audit_to_json(const Audit& audit) {
  Json json{{"schema_version", 1},
            {"model", audit.model},
            {"reference", audit.reference.empty() ? Json() : Json(audit.reference)},
            {"runner", audit.runner},
            {"machine", audit.machine},
            {"target", audit.target.empty() ? Json() : Json(audit.target)},
            {"samples", audit.samples},
            {"random_inputs", audit.random_inputs},
            {"loss", audit.loss},
            {"arithmetic",
             {{"here", measurement_json(audit.runtime)},
              {"exact", measurement_json(audit.exact)},
              {"saturating", measurement_json(audit.saturating)}}},
            {"layers", Json::array()},
            {"proposed", audit.proposed}};
  for (const AuditedLayer& layer : audit.layers) {
    Json entry{{"name", layer.name}, {"op_type", layer.op_type}, {"can_saturate", layer.can_saturate()}};
    if (!layer.is_emulated()) entry["not_emulated_because"] = layer.not_emulated_because;
    else if (!layer.exact_because.empty()) entry["exact_because"] = layer.exact_because;
    else entry["largest_sum"] = layer.largest_sum;
    if (layer.can_saturate()) {
      entry["pairs"] = layer.pairs;
      entry["saturated_pairs"] = layer.saturated_pairs;
      entry["outputs"] = layer.outputs;
      entry["saturated_outputs"] = layer.saturated_outputs;
      if (audit.target.empty()) entry["equal_to_runtime"] = layer.equal_to_runtime;
    }
    json["layers"].push_back(std::move(entry));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string audit_text(const Audit& audit, const TextStyle& style) {
  std::string text = fmt::format("{}: {} samples, against {}\n", audit.model, audit.samples,
                                 audit.reference.empty() ? "what it gives here" : audit.reference);
  if (audit.random_inputs) text += "the inputs are random numbers: losses and counts mean nothing\n";
  const bool on_target = !audit.target.empty();
  const std::string without_limit = audit.target + ", sums without limit";
  const char* exact = on_target ? without_limit.c_str() : "exact (VNNI, AMX, ARM)";
  const char* saturating = on_target ? audit.target.c_str() : "saturating (x86 without VNNI)";
  const std::vector<NamedMeasurement> measured{
      {"here", &audit.runtime}, {exact, &audit.exact}, {saturating, &audit.saturating}};
  text += fmt::format("\n{}\n", losses_table(audit.loss, measured, style));
  const auto can = std::ranges::count_if(audit.layers, [](const AuditedLayer& l) { return l.can_saturate(); });
  const auto did = std::ranges::count_if(audit.layers, [](const AuditedLayer& l) { return l.saturated_pairs > 0; });
  text += fmt::format("{} layers in {}: {} can saturate, {} did\n", audit.layers.size(),
                      on_target ? "integers" : "int8", can, did);
  text += not_emulated_text(audit);
  std::vector<TableRow> rows;
  for (const AuditedLayer& layer : audit.layers)
    if (layer.saturated_pairs > 0)
      rows.push_back(
          {layer.name, percent(layer.saturated_pairs, layer.pairs), percent(layer.saturated_outputs, layer.outputs)});
  if (rows.empty()) return text;
  const std::vector<TableColumn> columns{{"layer", TableColumn::kName},
                                         {on_target ? "sums cut off" : "sums of pairs cut off", kFigure},
                                         {"outputs with one", kFigure}};
  text += fmt::format("\n{}", lines(columns, std::move(rows), style));
  return text;
}

std::string float16_audit_to_json(const Float16Audit& audit) {
  Json json{{"schema_version", 1},
            {"model", audit.model},
            {"runner", audit.runner},
            {"samples", audit.samples},
            {"random_inputs", audit.random_inputs},
            {"loss", audit.loss},
            {"float16", measurement_json(audit.all)},
            {"mixed", measurement_json(audit.mixed)},
            {"layers", Json::array()},
            {"in_float32", audit.in_float32}};
  for (const Float16Layer& layer : audit.layers) {
    Json entry{{"name", layer.name},         {"op_type", layer.op_type},     {"largest", layer.largest},
               {"overflow", layer.overflow}, {"underflow", layer.underflow}, {"accumulation", layer.accumulation}};
    if (!layer.overflows.empty()) entry["overflows"] = layer.overflows;
    if (!layer.underflows.empty()) entry["underflows"] = layer.underflows;
    json["layers"].push_back(std::move(entry));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string float16_audit_text(const Float16Audit& audit, const TextStyle& style) {
  std::string text = fmt::format("{}: {} samples, against float32\n", audit.model, audit.samples);
  if (audit.random_inputs) text += "the inputs are random numbers: losses and values mean nothing\n";
  text += fmt::format(
      "\n{}\n",
      losses_table(audit.loss, {{"float16", &audit.all}, {"float16, but float32 below", &audit.mixed}}, style));
  constexpr double kTold = 0.01;  // error of sums
  const std::set<LayerId> in_float32(audit.in_float32.begin(), audit.in_float32.end());
  std::vector<TableRow> rows;
  int beyond = 0, small = 0, small_in_float32 = 0;
  double sums = 0;
  for (const Float16Layer& l : audit.layers) {
    const bool overflows = !l.overflows.empty(), underflows = !l.underflows.empty();
    beyond += overflows;
    small += underflows && !overflows;
    small_in_float32 += underflows && !overflows && in_float32.contains(l.name);
    sums = std::max(sums, l.accumulation);
    if (!overflows && !underflows && l.accumulation < kTold) continue;
    rows.push_back({l.name, l.op_type, internal::format_figure(l.largest), internal::format_percent(l.overflow),
                    internal::format_percent(l.underflow),
                    l.accumulation > 0 ? internal::format_percent(l.accumulation) : "-",
                    in_float32.contains(l.name) ? overflows ? l.overflows : l.underflows : ""});
  }
  text += fmt::format("{} of {} layers read or write a value beyond 65504\n", beyond, audit.layers.size());
  if (small_in_float32 > 0)
    text += fmt::format("{} more read or write values that become 0; the answers need {} of them in float32\n", small,
                        small_in_float32);
  else if (small > 0)
    text += fmt::format("{} more read or write values that become 0; they are not what the answers lose\n", small);
  if (sums > 0)
    text += fmt::format("where sums are added in float16 as well, the longest are off by {} more\n",
                        internal::format_percent(sums));
  if (rows.empty()) return text;
  const std::vector<TableColumn> columns{{"layer", TableColumn::kName},
                                         {"operator"},
                                         {"largest", kFigure},
                                         {"beyond 65504", kFigure},
                                         {"become 0", kFigure},
                                         {"sums off by", kFigure},
                                         {"in float32 for", TableColumn::kName}};
  return text + "\n" + lines(columns, std::move(rows), style);
}

void write_proposal(const Audit& audit, const std::filesystem::path& plan) {
  write_file_atomic(plan, plan_to_json(audit.proposal));
}

}  // namespace seqto
