// What `validate --invariance` found, as text and JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/json.h"
#include "seqto/report.h"
#include "visualizer/document.h"
#include "visualizer/format.h"
#include "visualizer/parity_json.h"

namespace seqto {
namespace {

using Json = nlohmann::ordered_json;

std::string name_of(const Variation& v) {
  if (v.kind == "batch") return fmt::format("in batches of {}", v.size);
  if (v.kind == "order") return fmt::format("in reversed batches of {}", v.size);
  if (v.kind.starts_with("padding"))
    return fmt::format("filled up{}{}", v.kind == "padding_in_front" ? " in front" : "",
                       v.size > 0 ? fmt::format(" to {} positions", v.size) : "");
  return fmt::format("on {} threads", v.size);
}

std::string where_it_begins(const Variation& v) {
  if (v.changed == 0) return "";
  return v.first ? fmt::format("{} {}", v.first->op_type, v.first->node) : "optimized kernels";
}

std::string off_by(const Variation& v) {
  if (!v.first) return "";
  return fmt::format("{} of {}", internal::format_figure(v.first->max_abs),
                     internal::format_figure(v.first->largest_abs));
}

internal::Document document_of(const Invariance& invariance) {
  internal::Document d;
  d.title = "Does an answer depend on what it is computed with?";
  d.good = passed(invariance);
  const auto tried = std::ranges::count_if(invariance.variations, [](const auto& v) { return v.left_out.empty(); });
  const auto changing = std::ranges::count_if(invariance.variations, [](const auto& v) { return v.changed > 0; });
  const std::string samples = internal::counted(static_cast<size_t>(invariance.samples), "sample");
  const auto ways = [](auto count) { return internal::counted(static_cast<size_t>(count), "way"); };
  if (!d.good) d.verdict = fmt::format("FAILED: other bits in {} of {}, over {}", changing, ways(tried), samples);
  else
    d.verdict = fmt::format("PASSED: the same bits of {} in {}{}", samples, ways(tried - changing),
                            changing > 0 ? ", sums in another order behind padding" : "");
  internal::DocumentTable table{"",
                                {{"computed", TableColumn::kName},
                                 {"verdict", TableColumn::kVerdict},
                                 {"changed", TableColumn::kFigure},
                                 {"max abs", TableColumn::kFigure},
                                 {"worst cosine", TableColumn::kFigure},
                                 {"of sample", TableColumn::kName},
                                 {"begins at", TableColumn::kName},
                                 {"off by", TableColumn::kFigure}},
                                {}};
  for (const Variation& v : invariance.variations) {
    if (v.left_out.empty())
      table.rows.push_back({name_of(v), passed(v) ? "ok" : "FAILED", fmt::format("{}", v.changed),
                            internal::format_figure(v.max_abs), fmt::format("{:.6f}", v.worst_cosine), v.worst_sample,
                            where_it_begins(v), off_by(v)});
    else d.findings.push_back({fmt::format("not tried {}: {}", name_of(v), v.left_out)});
  }
  for (const Variation& v : invariance.variations)
    if (!v.not_compared.empty())
      d.findings.push_back({fmt::format("not compared {}: {} (its first axis does not hold the samples)", name_of(v),
                                        fmt::join(v.not_compared, ", "))});
  const auto changes = [](const Variation& v) { return v.changed > 0; };
  if (!d.good)
    d.findings.push_back(
        {"begins at: the first node of the graph with other values for that sample, and how far off they "
         "are; the runtime's optimizations are off there"});
  if (std::ranges::any_of(invariance.variations, [&](const auto& v) { return changes(v) && !v.first; }))
    d.findings.push_back({"optimized kernels: with the runtime's optimizations off that sample gets the same bits"});
  d.tables = {std::move(table)};
  d.facts.push_back(fmt::format("model: {} on {}", invariance.model, invariance.runner));
  return d;
}

}  // namespace

Json internal::first_difference_json(const FirstDifference& first) {
  return {{"node", first.node},     {"op_type", first.op_type}, {"tensor", first.tensor},
          {"sample", first.sample}, {"max_abs", first.max_abs}, {"largest_abs", first.largest_abs}};
}

std::string invariance_to_json(const Invariance& invariance) {
  Json json{{"schema_version", 1},
            {"passed", passed(invariance)},
            {"model", {{"path", invariance.model}, {"runner", invariance.runner}}},
            {"samples", invariance.samples},
            {"variations", Json::array()}};
  for (const Variation& v : invariance.variations) {
    Json entry{{"kind", v.kind}, {"size", v.size}};
    if (v.left_out.empty())
      entry.update({{"changed", v.changed},
                    {"max_abs", v.max_abs},
                    {"worst_cosine", v.worst_cosine},
                    {"worst_sample", v.worst_sample}});
    else entry["left_out"] = v.left_out;
    if (v.first) entry["first_difference"] = internal::first_difference_json(*v.first);
    else if (v.changed > 0) entry["first_difference"] = nullptr;
    if (!v.not_compared.empty()) entry["not_compared"] = v.not_compared;
    json["variations"].push_back(std::move(entry));
  }
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string invariance_text(const Invariance& invariance, const TextStyle& style) {
  return to_text(document_of(invariance), style);
}

void write_invariance(const Invariance& invariance, const std::filesystem::path& file) {
  write_document(document_of(invariance), invariance_to_json(invariance), file);
}

}  // namespace seqto
