#include "visualizer/table_rows.h"

#include <algorithm>
#include <map>

#include "visualizer/points.h"

namespace seqto::internal {
namespace {

constexpr double kRuined = 1.0 / 3;  // of the answers changed

}  // namespace

bool is_ruined(const SummaryPoint& point, const std::string& loss) {
  const auto& m = point.trial.measurement;
  return m && has_classes(*m, loss) && m->losses.top1_disagreement > kRuined;
}

namespace {

bool is_chosen(const Summary& summary, const SummaryPoint& point) {
  return point.trial.id == summary.selected || rank(summary, point.trial.id) > 0;
}

// By the runs' spread, where somebody asked for speed.
bool is_faster(const Summary& summary, const SummaryPoint& point, const SummaryPoint& than) {
  const auto has = [&](const char* name) { return std::ranges::count(summary.objectives, name) > 0; };
  const Measurement &a = *point.trial.measurement, &b = *than.trial.measurement;
  if (has("latency") && a.latency.median_ns < b.latency.p10_ns) return true;
  return has("decode_latency") && a.decode_latency && b.decode_latency &&
         a.decode_latency->median_ns < b.decode_latency->p10_ns;
}

// Neither smaller than the float model nor faster: a front of three objectives holds such points by chance.
bool is_idle(const Summary& summary, const SummaryPoint& point) {
  const auto& before = summary.baseline.trial.measurement;
  return before && point.trial.measurement->size_bytes >= before->size_bytes &&
         !is_faster(summary, point, summary.baseline);
}

// The front, with what cannot be told from a smaller point folded into that.
std::vector<ShownPoint> distinct(const Summary& summary) {
  const std::string loss = loss_name(summary);
  std::vector<ShownPoint> rows;
  for (const SummaryPoint& point : summary.front) {
    const std::string& id = point.trial.id;
    if (id == summary.baseline.trial.id || id == summary.fully_quantized.trial.id) continue;
    if ((is_ruined(point, loss) || is_idle(summary, point)) && id != summary.selected) continue;
    const auto smaller = std::ranges::find_if(rows, [&](const ShownPoint& row) {
      return row.point->trial.id == point.alike && !is_faster(summary, point, *row.point);
    });
    if (smaller == rows.end() || is_chosen(summary, point)) rows.push_back({&point});
    else ++smaller->folded;
  }
  return rows;
}

// Null where none is faster than float: of a front sorted by size it may stand anywhere.
const SummaryPoint* fastest_of(const Summary& summary, const std::vector<ShownPoint>& rows) {
  const SummaryPoint* fastest = nullptr;
  for (const ShownPoint& row : rows)
    if (is_faster(summary, *row.point, fastest ? *fastest : summary.baseline)) fastest = row.point;
  return fastest;
}

// So many of them, the first and the last among them.
std::vector<ShownPoint> spread(const std::vector<ShownPoint>& rows, size_t count) {
  if (count >= rows.size()) return rows;
  std::vector<ShownPoint> some;
  for (size_t i = 0; i < count; ++i) some.push_back(rows[count == 1 ? 0 : i * (rows.size() - 1) / (count - 1)]);
  return some;
}

}  // namespace

std::vector<ShownPoint> shown_points(const Summary& summary, size_t most) {
  std::vector<ShownPoint> shown;
  if (!summary.baseline.trial.id.empty()) shown.push_back({&summary.baseline});
  if (!summary.fully_quantized.trial.id.empty()) shown.push_back({&summary.fully_quantized});
  std::vector<ShownPoint> rows = distinct(summary), rest;
  const SummaryPoint* fastest = fastest_of(summary, rows);
  const auto chosen = [&](const ShownPoint& row) { return row.point == fastest || is_chosen(summary, *row.point); };
  std::ranges::copy_if(rows, std::back_inserter(rest), [&](const ShownPoint& row) { return !chosen(row); });
  const size_t taken = shown.size() + rows.size() - rest.size();
  const std::vector<ShownPoint> some = spread(rest, most > taken ? most - taken : 0);
  for (const ShownPoint& row : rows)
    if (chosen(row) || std::ranges::any_of(some, [&](const ShownPoint& s) { return s.point == row.point; }))
      shown.push_back(row);
  return shown;
}

}  // namespace seqto::internal
