// What an audit found, as JSON and for a terminal.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include "base/json.h"

#include "base/files.h"
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

std::string losses_table(const Audit& audit, const TextStyle& style) {
  const bool labels = audit.runtime.metrics.contains("top1");
  const bool classes = internal::has_classes(audit.runtime, audit.loss);
  std::vector<TableColumn> columns{{"arithmetic"}, {audit.loss, kFigure}};
  if (classes) columns.push_back({"top1_disagreement", kFigure});
  if (labels) columns.push_back({"top1", kFigure});
  std::vector<TableRow> rows;
  const auto add = [&](const char* name, const Measurement& m) {
    rows.push_back({name, internal::format_figure(objective(m, audit.loss))});
    if (classes) rows.back().push_back(internal::format_percent(m.losses.top1_disagreement));
    if (labels) rows.back().push_back(internal::format_percent(m.metrics.at("top1")));
  };
  add("here", audit.runtime);
  add("exact (VNNI, AMX, ARM)", audit.exact);
  add("saturating (x86 without VNNI)", audit.saturating);
  return lines(std::move(columns), std::move(rows), style);
}

// Two digits, however small: one sum cut off in a million can be the one that counts.
std::string percent(int64_t part, int64_t all) {
  return fmt::format("{:.2g} %", all > 0 ? 100 * static_cast<double>(part) / static_cast<double>(all) : 0);
}

}  // namespace

std::string audit_to_json(const Audit& audit) {
  Json json{{"schema_version", 1},
            {"model", audit.model},
            {"reference", audit.reference.empty() ? Json() : Json(audit.reference)},
            {"runner", audit.runner},
            {"machine", audit.machine},
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
    if (!layer.exact_because.empty()) entry["exact_because"] = layer.exact_because;
    else entry["largest_sum"] = layer.largest_sum;
    if (layer.can_saturate()) {
      entry["pairs"] = layer.pairs;
      entry["saturated_pairs"] = layer.saturated_pairs;
      entry["outputs"] = layer.outputs;
      entry["saturated_outputs"] = layer.saturated_outputs;
      entry["equal_to_runtime"] = layer.equal_to_runtime;
    }
    json["layers"].push_back(std::move(entry));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string audit_text(const Audit& audit, const TextStyle& style) {
  std::string text = fmt::format("{}: {} samples, against {}\n", audit.model, audit.samples,
                                 audit.reference.empty() ? "what it gives here" : audit.reference);
  if (audit.random_inputs) text += "the inputs are random numbers: losses and counts mean nothing\n";
  text += fmt::format("\n{}\n", losses_table(audit, style));
  const auto can = std::ranges::count_if(audit.layers, [](const AuditedLayer& l) { return l.can_saturate(); });
  const auto did = std::ranges::count_if(audit.layers, [](const AuditedLayer& l) { return l.saturated_pairs > 0; });
  text += fmt::format("{} layers in int8: {} can saturate, {} did\n", audit.layers.size(), can, did);
  std::vector<TableRow> rows;
  for (const AuditedLayer& layer : audit.layers)
    if (layer.saturated_pairs > 0)
      rows.push_back(
          {layer.name, percent(layer.saturated_pairs, layer.pairs), percent(layer.saturated_outputs, layer.outputs)});
  if (rows.empty()) return text;
  const std::vector<TableColumn> columns{
      {"layer", TableColumn::kName}, {"sums of pairs cut off", kFigure}, {"outputs with one", kFigure}};
  text += fmt::format("\n{}", lines(columns, std::move(rows), style));
  return text;
}

void write_proposal(const Audit& audit, const std::filesystem::path& plan) {
  write_file_atomic(plan, plan_to_json(audit.proposal));
}

}  // namespace seqto
