#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "seqto/error.h"
#include "seqto/report.h"
#include "visualizer/html.h"
#include "visualizer/report_data.h"
#include "visualizer/small_summary.h"
#include "visualizer/svg_engine.h"

namespace seqto {
namespace {

// SEQTO_REPORT_OUT keeps the reports: report_browser_test.py opens them.
std::filesystem::path folder(const std::string& name) {
  static const TemporaryFolder temporary;
  const char* kept = std::getenv("SEQTO_REPORT_OUT");
  auto dir = (kept ? std::filesystem::path(kept) : temporary.path) / ("seqto_" + name);
  std::filesystem::remove_all(dir);
  return dir;
}

size_t count(const std::string& text, const std::string& piece) {
  size_t n = 0;
  for (auto at = text.find(piece); at != std::string::npos; at = text.find(piece, at + 1)) ++n;
  return n;
}

TEST(Report, IsOnePageWithoutNetworkAndWithoutForeignScripts) {
  const auto dir = folder("report_small");
  auto summary = small_summary();
  summary.judged_by = "top1_disagreement";
  write_report(summary, dir);
  write_file_atomic(dir / "summary.json", summary_to_json(summary));  // for report_browser_test.py
  const auto page = read_file(dir / "report.html");
  for (const auto* scheme : {"http:", "https:", "//"}) {
    for (const auto* attribute : {"src=\"", "href=\"", "src='", "href='"}) {
      EXPECT_EQ(page.find(attribute + std::string(scheme)), std::string::npos);
    }
  }
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_EQ(page.find("<b>net"), std::string::npos);
  EXPECT_EQ(page.find("<host>"), std::string::npos);
  EXPECT_EQ(page.find("<op>"), std::string::npos);
  EXPECT_EQ(count(page, "</script>"), 7U);  // the data, ECharts, plots.js, page.js, layer_view.js, dagre, graph_view.js
  EXPECT_NE(page.find("&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;&amp;&#39;"), std::string::npos);
  EXPECT_NE(page.find("<p id=\"answer\">" + answer(summary) + "</p>"), std::string::npos);
  EXPECT_NE(page.find("78.4 % lower than int8"), std::string::npos);
  EXPECT_NE(page.find("7 int8, 1 float32"), std::string::npos) << "the layers as they are written";
}

TEST(Report, SvgFilesShowThePlots) {
  const auto dir = folder("report_svg");
  write_report(small_summary(), dir);
  const auto front = read_file(dir / "plots/front.svg");
  EXPECT_TRUE(front.starts_with("<svg "));
  EXPECT_NE(front.find(">int8</text>"), std::string::npos);
  EXPECT_NE(front.find("size in MB"), std::string::npos);
  EXPECT_GT(count(front, "<path"), 20U);
  const auto sensitivity = read_file(dir / "plots/sensitivity.svg");
  EXPECT_NE(sensitivity.find("qdq_err"), std::string::npos);
  EXPECT_NE(sensitivity.find("conv7_out"), std::string::npos);
  EXPECT_EQ(sensitivity.find("<script"), std::string::npos);
  EXPECT_NE(sensitivity.find("&lt;scr"), std::string::npos);
  EXPECT_NE(read_file(dir / "plots/exclusion.svg").find("entries in the exclusion list"), std::string::npos);
}

// Nothing measured: the plot says so. Nothing analysed: there is none, nor that of a study before.
TEST(Report, EmptySummary) {
  const auto dir = folder("report_empty");
  write_report(small_summary(), dir);
  EXPECT_TRUE(std::filesystem::exists(dir / "plots/exclusion.svg"));
  write_report({}, dir);
  EXPECT_FALSE(std::filesystem::exists(dir / "plots/exclusion.svg"));
  EXPECT_FALSE(std::filesystem::exists(dir / "plots/sensitivity.svg"));
  EXPECT_NE(read_file(dir / "plots/front.svg").find("no measured candidates"), std::string::npos);
  EXPECT_NE(read_file(dir / "report.html").find("No candidate was selected"), std::string::npos);
}

// A study at its first trials; a loss that is not a number; an objective that nobody measured; losses over decades.
TEST(Report, OddStudies) {
  auto summary = small_summary();
  summary.trials.resize(2);
  summary.front = {summary.baseline};
  summary.selected = "float";
  summary.fully_quantized.trial.measurement->losses.kl = std::numeric_limits<double>::quiet_NaN();
  summary.sensitivity.weights.clear();
  write_report(summary, folder("report_first"));

  summary = small_summary();
  summary.objectives = {"size", "top1"};
  EXPECT_NE(internal::report_data_json(summary).find("\"loss\":\"top1 drop\""), std::string::npos);
  summary.objectives = {"f1"};
  write_report(summary, folder("report_f1"));

  summary = small_summary();
  for (auto* list : {&summary.trials, &summary.front}) {
    for (auto& point : *list) {
      if (point.trial.measurement) point.trial.measurement->losses.kl *= std::pow(0.3, point.trial.number);
    }
  }
  summary.header.model_path = "models/\xE6\xA8\xA1\xE5\x9E\x8B.onnx";
  const auto dir = folder("report_decades");
  write_report(summary, dir);
  EXPECT_NE(read_file(dir / "plots/front.svg").find("(log; 0 at the lower end)"), std::string::npos);

  // Less than a logarithmic axis can hold.
  for (auto* list : {&summary.trials, &summary.front})
    for (auto& point : *list)
      if (point.trial.measurement && point.trial.number % 2) point.trial.measurement->losses.kl *= 1e-13;
  write_report(summary, dir);
  const std::string svg = read_file(dir / "plots/front.svg");
  EXPECT_NE(svg.find("(log; what is below at the lower end)"), std::string::npos);
  EXPECT_EQ(svg.find("Infinity"), std::string::npos);
}

// Latency as an objective: its colours, and the front on two devices.
// Losses that are drops of accuracy, where nothing is worse than float.
TEST(Report, TheAxisEndsWhereTheLossesDo) {
  Summary summary = small_summary();
  summary.objectives = {"top1", "size"};
  for (auto* list : {&summary.trials, &summary.front})
    for (SummaryPoint& point : *list) point.drops["top1"].value = -0.005;
  summary.baseline.drops["top1"].value = summary.fully_quantized.drops["top1"].value = 0;
  const auto dir = folder("report_better_than_float");
  write_report(summary, dir);
  const std::string svg = read_file(dir / "plots/front.svg");
  EXPECT_EQ(svg.find(">0.8<"), std::string::npos) << "up to 1";
  EXPECT_NE(svg.find(">-0.005<"), std::string::npos);
}

TEST(Report, LossesWithoutEndAreSortedBehindAll) {
  EXPECT_EQ(internal::cell(INFINITY, "∞"), "<td data-value=\"Infinity\">∞</td>");
  EXPECT_EQ(internal::cell(NAN, ""), internal::empty_cell());
}

TEST(Report, LatenciesAndDevices) {
  auto summary = small_summary();
  summary.objectives = {"kl", "size", "latency"};
  summary.outline = {"full", "0000000000000013"};
  summary.device = "cpu";
  summary.elsewhere.push_back(summary);
  summary.elsewhere[0].device = "<b>other</b>";
  for (auto* list : {&summary.elsewhere[0].front, &summary.elsewhere[0].trials})
    for (auto& point : *list)
      if (point.trial.measurement) point.trial.measurement->latency.median_ns /= 4;
  const auto dir = folder("report_devices");
  write_report(summary, dir);
  const auto front = read_file(dir / "plots/front.svg");
  EXPECT_NE(front.find("least kl at each size"), std::string::npos);
  EXPECT_NE(front.find("ms a sample"), std::string::npos);
  EXPECT_NE(read_file(dir / "plots/latency.svg").find("least kl at each latency"), std::string::npos);
  const auto devices = read_file(dir / "plots/devices.svg");
  EXPECT_NE(devices.find("latency in ms a sample"), std::string::npos);
  EXPECT_NE(devices.find("&lt;b&gt;other"), std::string::npos);
  EXPECT_EQ(read_file(dir / "report.html").find("<b>other</b>"), std::string::npos);
}

// What a search knows of single groups; a point of the front that is ruined leaves the axes as they are.
TEST(Report, LossesByLayerAndARuinedPoint) {
  auto summary = small_summary();
  for (auto& trial : summary.trials) trial.trial.excluded.clear();
  WhatIf what_if{.loss = "kl", .size_bytes = 14000000, .latency_ns = 0, .groups = {}};
  for (int i = 0; i < 8; ++i) {
    const LayerId& layer = summary.layers[static_cast<size_t>(i)].id;
    Plan plan;
    plan.schemes[layer] = Scheme::kInt8;
    const WhatIf::Choice int8{.scheme = {Scheme::kInt8}, .loss = 0.01 * i, .bytes_saved = 9, .plan = plan};
    what_if.groups.push_back({{layer}, {{}, int8}});
  }
  summary.what_if = what_if;
  auto& ruined = *summary.front[1].trial.measurement;
  ruined.losses.kl = 1e10;
  ruined.losses.top1_disagreement = 0.9;
  const auto dir = folder("report_ruined");
  write_report(summary, dir);
  const auto front = read_file(dir / "plots/front.svg");
  EXPECT_NE(front.find("1 above, at the upper end"), std::string::npos);
  EXPECT_EQ(front.find("0000000000<"), std::string::npos);
  const auto layers = read_file(dir / "plots/layer_losses.svg");
  EXPECT_NE(layers.find("kl, alone in int8"), std::string::npos);
  EXPECT_NE(layers.find(">float32</text>"), std::string::npos) << "the selected point's schemes tell the colours";
  EXPECT_FALSE(std::filesystem::exists(dir / "plots/exclusion.svg"));

  for (WhatIf::Group& group : summary.what_if->groups) group.choices[1].loss = 0.01;
  const auto drawn = [&] { return internal::draw_svgs(internal::report_data_json(summary), {"layer_losses"}).front(); };
  const std::string first = drawn();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(drawn(), first) << "of equal losses the first layers come first";
}

TEST(Report, ManyTrials) {
  auto summary = small_summary();
  for (int i = 0; i < 500; ++i) {
    summary.trials.push_back(measured_point(std::to_string(i) + "t", 12 + i, 3600000 + 20000 * i, 0.4 / (1 + i % 97)));
    summary.sensitivity.activations.push_back(
        {std::to_string(i) + "_tensor", 20 + i / 25.0, 10 + i / 30.0, 1 - i / 500.0});
  }
  write_report(summary, folder("report_many"));
}

TEST(Report, Comparison) {
  Comparison c;
  c.objectives = {"kl", "size"};
  c.warnings = {"they are <different>"};
  c.studies = {{"first " + kHostile, small_summary(), {"full"}}, {"second", small_summary(), {}}};
  for (auto* list : {&c.studies[1].summary.front, &c.studies[1].summary.trials})
    for (auto& point : *list)
      if (point.trial.measurement) point.trial.measurement->losses.kl *= 1.5;
  c.layers = {{kHostile, {"int8", "float32"}}};
  c.options = {{"strategy", {"chain", ""}}};
  // Not among the reports, whose names report_browser_test.py knows by their beginning.
  const auto dir = folder("comparison");
  write_comparison(c, dir);
  const auto page = read_file(dir / "comparison.html");
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_NE(page.find("they are &lt;different&gt;"), std::string::npos);
  EXPECT_NE(read_file(dir / "plots/fronts.svg").find("second"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(read_file(dir / "comparison.json"))["studies"][0]["selected"], "0000000000000013");
}

TEST(Report, OverviewOfLongNames) {
  const std::string name = "a_network_from_some_exporter/with_a_name/that_nobody_types_but_a_program_does_v2";
  const OverviewEntry entries[] = {{name, small_summary(), ""}, {kHostile + name, {}, "no " + kHostile}};
  const auto dir = folder("overview");
  write_overview(entries, dir);
  const auto page = read_file(dir / "index.html");
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_NE(page.find("<td class=\"model\"><a href=\"./a_network"), std::string::npos);
}

TEST(Report, OverviewHasTimesAt80Columns) {
  const OverviewEntry entries[] = {{"a_network_from_some_exporter", small_summary(), ""}};
  const std::string table = overview_table(entries, {.columns = 80}), titles = table.substr(0, table.find('\n'));
  for (const char* title : {"selected", "loss", "float time", "its time"})
    EXPECT_NE(titles.find(title), std::string::npos) << table;
}

TEST(ReportData, CannotLeaveItsScriptElement) {
  auto summary = small_summary();
  summary.sensitivity.activations[0].tensor = "</script>\xE2\x80\xA8<!--\xFF";
  const auto json = internal::report_data_json(summary);
  for (const char c : json) EXPECT_TRUE(c >= 0x20 && c < 0x7F && c != '<' && c != '>' && c != '&');
  EXPECT_EQ(nlohmann::json::parse(json)["activations"][0]["tensor"], "</script>\xE2\x80\xA8<!--\xEF\xBF\xBD");
}

TEST(ReportData, KnowsWhatTheFrontKnows) {
  auto summary = small_summary();
  summary.front[2].alike = "full";  // which its trial does not tell
  const auto data = nlohmann::json::parse(internal::report_data_json(summary));
  int alike = 0;
  for (const auto& point : data["points"]) alike += point.contains("alike");
  EXPECT_EQ(alike, 1);
}

TEST(SvgEngine, SaysWhatFailed) {
  try {
    internal::draw_svgs("{}", {"front"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInternal);
    EXPECT_NE(std::string(error.what()).find("[report] the plots' script failed in front: TypeError"),
              std::string::npos)
        << error.what();
  }
}

TEST(SvgEngine, TextIsXml) {
  EXPECT_EQ(internal::xml_text("a\tb\n\xC3\xA9"), "a\tb\n\xC3\xA9");
  EXPECT_EQ(internal::xml_text("\xED\xA0\xBD\xED\xB8\x80!"), "\xF0\x9F\x98\x80!");  // a pair: U+1F600
  EXPECT_EQ(internal::xml_text("\xED\xA0\xBDx"), "\xEF\xBF\xBDx");                  // half a pair
  EXPECT_EQ(internal::xml_text("\x01\x1B"), "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(internal::xml_text("\xEF\xBF\xBE"), "\xEF\xBF\xBD");  // U+FFFE
  EXPECT_EQ(internal::xml_text("\xE2\x98\x85"), "\xE2\x98\x85");
  EXPECT_EQ(internal::xml_text(""), "");
}

}  // namespace
}  // namespace seqto
