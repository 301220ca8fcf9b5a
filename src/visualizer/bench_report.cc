// What `bench` found, as text.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include "base/json.h"

#include "seqto/report.h"
#include "visualizer/document.h"
#include "visualizer/format.h"

namespace seqto {
namespace {

using Json = nlohmann::ordered_json;
using internal::format_figure;

constexpr auto kFigure = TableColumn::kFigure;

std::string or_dash(int64_t value, std::string text) { return value > 0 ? std::move(text) : "-"; }

// "57200", "3.41"
std::string rate_text(double per_second) {
  return per_second < 1000 ? format_figure(per_second) : fmt::format("{:.0f}", per_second);
}

internal::DocumentTable latency_table(const BenchResult& r) {
  internal::DocumentTable table{"",
                                {{"model", TableColumn::kName},
                                 {"size", kFigure},
                                 {"load", kFigure, 4},
                                 {"first run", kFigure, 3},
                                 {"p50", kFigure},
                                 {"p90", kFigure, 6},
                                 {"p99", kFigure, 2},
                                 {"runs/s", kFigure, 5},
                                 {"peak memory", kFigure, 1}},
                                {}};
  for (const BenchedModel& m : r.models)
    table.rows.push_back({m.path, format_bytes(m.size_bytes), format_duration(m.load_median_ns),
                          format_duration(m.first_median_ns), format_duration(m.p50_ns), format_duration(m.p90_ns),
                          format_duration(m.p99_ns), rate_text(m.runs_per_second),
                          or_dash(m.peak_bytes, format_bytes(m.peak_bytes))});
  return table;
}

struct Total {
  int64_t count = 0, ns = 0;
};
std::map<std::string, Total> by_operator(const BenchedModel& m) {
  std::map<std::string, Total> totals;
  for (const NodePlacement& n : m.nodes) {
    ++totals[n.op_type].count;
    totals[n.op_type].ns += n.ns;
  }
  return totals;
}

std::optional<Colour> colour_of(const BenchComparison& c) {
  if (c.speed == Speed::kSame) return {};
  return c.speed == Speed::kSlower ? Colour::kBad : Colour::kGood;
}

// "slower than the original: 3.2 times its time (3.0 to 3.4)".
std::string bench_verdict(const BenchComparison& c) {
  const std::string figures =
      fmt::format("{:.2f} times its time ({:.2f} to {:.2f})", c.ratio, c.ratio_interval.low, c.ratio_interval.high);
  if (c.speed == Speed::kSlower) return "slower than the original: " + figures;
  if (c.speed == Speed::kFaster)
    return fmt::format("faster than the original by {:.2f} times: {}", 1 / c.ratio, figures);
  return "cannot be told apart from the original: " + figures;
}

internal::Document document_of(const BenchResult& r) {
  internal::Document d;
  d.title = "Models side by side";
  d.judges = false;
  d.tables = {latency_table(r)};
  for (size_t i = 0; i < r.comparisons.size(); ++i) {
    d.findings.push_back(
        {fmt::format("{}: {}", r.models[i + 1].path, bench_verdict(r.comparisons[i])), colour_of(r.comparisons[i])});
    d.good &= r.comparisons[i].speed != Speed::kSlower;
    for (const auto& why : r.comparisons[i].why) d.findings.push_back({"  " + why});
  }
  d.verdict =
      fmt::format("{}; {} in {} launch{}, the models in turn", r.runner,
                  internal::counted(static_cast<size_t>(r.rounds), "round"), r.launches, r.launches == 1 ? "" : "es");
  if (r.random_inputs) d.verdict += "; RANDOM inputs: latencies only";
  if (!r.cut_short.empty()) d.verdict += "; cut short: " + r.cut_short;
  return d;
}

Json interval_json(const Interval& i) { return {i.low, i.high}; }

Json model_json(const BenchedModel& m) {
  Json operators = Json::array();
  for (const auto& [op_type, total] : by_operator(m))
    operators.push_back({{"op_type", op_type}, {"count", total.count}, {"ns", total.ns}});
  Json memory = nullptr;
  if (m.peak_bytes > 0) memory = {{"peak_bytes", m.peak_bytes}, {"idle_bytes", m.idle_bytes}};
  return {{"path", m.path},
          {"size_bytes", m.size_bytes},
          {"form", m.form},
          {"load_ns", {{"median", m.load_median_ns}, {"all", m.load_ns}}},
          {"first_run_ns", {{"median", m.first_median_ns}, {"all", m.first_ns}}},
          {"latency_ns", {{"p50", m.p50_ns}, {"p90", m.p90_ns}, {"p99", m.p99_ns}}},
          {"runs", m.runs_ns.size()},
          {"runs_per_second", m.runs_per_second},
          {"memory", memory},
          {"operators", operators}};
}

}  // namespace

std::string bench_to_json(const BenchResult& r) {
  Json json{{"schema_version", 1},     {"runner", r.runner},          {"random_inputs", r.random_inputs},
            {"launches", r.launches},  {"rounds", r.rounds},          {"cut_short", r.cut_short},
            {"models", Json::array()}, {"comparisons", Json::array()}};
  for (const BenchedModel& m : r.models) json["models"].push_back(model_json(m));
  for (size_t i = 0; i < r.comparisons.size(); ++i) {
    const BenchComparison& c = r.comparisons[i];
    json["comparisons"].push_back({{"path", r.models[i + 1].path},
                                   {"speed", to_string(c.speed)},
                                   {"ratio", c.ratio},
                                   {"ratio_interval", interval_json(c.ratio_interval)},
                                   {"difference_ns", c.difference_ns},
                                   {"difference_interval", interval_json(c.difference_interval)},
                                   {"same_size", c.same_size},
                                   {"verdict", bench_verdict(c)},
                                   {"why", c.why}});
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string bench_text(const BenchResult& result, const TextStyle& style) {
  return to_text(document_of(result), style);
}

void write_bench(const BenchResult& result, const std::filesystem::path& file) {
  write_document(document_of(result), bench_to_json(result), file);
}

}  // namespace seqto
