#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "visualizer/small_summary.h"

namespace seqto {
namespace {

TEST(Format, Bytes) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1000), "1.00 kB");
  EXPECT_EQ(format_bytes(999994), "999.99 kB");
  EXPECT_EQ(format_bytes(999996), "1.00 MB");
  EXPECT_EQ(format_bytes(13970000), "13.97 MB");
  EXPECT_EQ(format_bytes(453000000000), "453.00 GB");
  EXPECT_EQ(format_bytes(-2500), "-2.50 kB");
}

TEST(Format, Duration) {
  EXPECT_EQ(format_duration(0), "0 ns");
  EXPECT_EQ(format_duration(999), "999 ns");
  EXPECT_EQ(format_duration(4560), "4.56 µs");
  EXPECT_EQ(format_duration(3210000), "3.21 ms");
  EXPECT_EQ(format_duration(999996000), "1.00 s");
  EXPECT_EQ(format_duration(59999000000), "1 min 00 s");
  EXPECT_EQ(format_duration(205000000000), "3 min 25 s");
  EXPECT_EQ(format_duration(3720000000000), "1 h 02 min");
}

TEST(Format, Shape) {
  EXPECT_EQ(format_shape({1, 3, -1, 224}, "x"), "1x3x?x224");
  EXPECT_EQ(format_shape({10}, " × "), "10");
  EXPECT_EQ(format_shape({}, "x"), "");
}

TEST(SummaryJson, HasTheFieldsOfTheContract) {
  const auto json = nlohmann::json::parse(summary_to_json(small_summary()));
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["model"]["path"], "models/<b>net.onnx");
  EXPECT_EQ(json["model"]["sha256"], std::string(64, 'a'));
  EXPECT_EQ(json["model"]["size_bytes"], 14000000);
  EXPECT_EQ(json["options"]["strategy"], "incremental");
  EXPECT_EQ(json["environment"]["threads"], 1);
  EXPECT_EQ(json["samples"], (nlohmann::json{{"calibration", 50}, {"search", 0}, {"evaluation", 283}}));
  EXPECT_EQ(json["objectives"], (nlohmann::json{"kl", "size"}));
  EXPECT_EQ(json["selected"], "0000000000000013");
  EXPECT_EQ(json["top"].size(), 3U);
  EXPECT_EQ(json["evaluations"], 12);
  EXPECT_EQ(json["wall_seconds"], 73.4);
  EXPECT_EQ(json["hypervolume"], 0.875);
  EXPECT_EQ(json["notes"].size(), 1U);
  EXPECT_EQ(json["baseline"]["id"], "float");
  EXPECT_EQ(json["fully_quantized"]["schemes"], (nlohmann::json{{"int8", 8}}));
  EXPECT_EQ(json["front"].size(), 8U);

  const auto& point = json["front"][1];
  EXPECT_EQ(point["id"], "0000000000000010");
  EXPECT_EQ(point["name"], "1");
  EXPECT_EQ(point["file"], "models/0000000000000010.onnx");
  EXPECT_EQ(point["plan"], "plans/0000000000000010.json");
  EXPECT_EQ(point["size_bytes"], 3650000);
  EXPECT_DOUBLE_EQ(point["size_reduction_kept"].get<double>(), 10350000.0 / 10400000);
  EXPECT_EQ(point["latency_ns"], (nlohmann::json{{"median", 3410000}, {"p10", 3300000}, {"p90", 3600000}}));
  for (const auto* name : {"kl", "top1_disagreement", "top5_disagreement", "rank_dissimilarity", "mse", "cosine"}) {
    EXPECT_TRUE(point["losses"][name].is_number()) << name;
  }
  EXPECT_EQ(point["metrics"]["top5"], 0.9);
  EXPECT_EQ(point["intervals"], nlohmann::json::object());
  EXPECT_EQ(point["schemes"], (nlohmann::json{{"int8", 7}, {"float32", 1}}));
  ASSERT_EQ(point["layers"].size(), 8U);  // each quantizable layer once
  EXPECT_EQ(point["layers"][0], (nlohmann::json{{"name", "conv0"}, {"scheme", "float32"}}));
  EXPECT_EQ(point["layers"][2], (nlohmann::json{{"name", kHostile}, {"scheme", "int8"}}));
}

// Static int8 has no operator for it, other schemes have.
TEST(SummaryJson, ALayerWhoseWeightsAloneAreQuantizedIsListed) {
  Summary summary = small_summary();
  summary.layers.push_back({.id = "lstm", .op_type = "LSTM", .schemes = {Scheme::kFloat32, Scheme::kInt8Weights}});
  const auto counts = [&] { return nlohmann::json::parse(summary_to_json(summary))["fully_quantized"]["schemes"]; };
  EXPECT_EQ(counts(), (nlohmann::json{{"int8", 8}, {"float32", 1}}));
  summary.fully_quantized.trial.plan.schemes["lstm"] = Scheme::kInt8Dynamic;
  EXPECT_EQ(counts(), (nlohmann::json{{"int8", 8}, {"int8_dynamic", 1}}));
}

TEST(SummaryJson, SchemesHaveTheirFields) {
  auto summary = small_summary();
  summary.fully_quantized.trial.plan.options["conv0"].method = "percentile";
  summary.fully_quantized.trial.plan.options["conv0"].per_channel = false;
  const auto point = nlohmann::json::parse(summary_to_json(summary))["fully_quantized"];
  EXPECT_EQ(point["schemes"], (nlohmann::json{{"int8", 7}, {"int8+method=percentile+per_channel=false", 1}}));
  EXPECT_EQ(point["layers"][0],
            (nlohmann::json{{"name", "conv0"}, {"scheme", "int8"}, {"method", "percentile"}, {"per_channel", false}}));
}

TEST(SummaryJson, FailedAndUnwrittenPointsAreNull) {
  auto summary = small_summary();
  summary.fully_quantized.trial.measurement.reset();
  summary.fully_quantized.trial.failure = "does not load";
  summary.selected.clear();
  summary.header.options_json = "";
  summary.header.environment_json = "not json";
  summary.layers[0].id = "\xFF";  // not UTF-8
  const auto json = nlohmann::json::parse(summary_to_json(summary));
  const auto& point = json["fully_quantized"];
  for (const auto* name : {"file", "plan", "size_bytes", "size_reduction_kept", "latency_ns", "losses", "metrics"}) {
    ASSERT_TRUE(point.contains(name)) << name;
    EXPECT_TRUE(point[name].is_null()) << name;
  }
  EXPECT_EQ(point["failure"], "does not load");
  EXPECT_TRUE(json["selected"].is_null());
  EXPECT_EQ(json["options"], nlohmann::json::object());
  EXPECT_EQ(json["environment"], "not json");
  EXPECT_EQ(json["baseline"]["layers"][0]["name"], "\xEF\xBF\xBD");
}

TEST(SummaryJson, EmptySummary) {
  const auto json = nlohmann::json::parse(summary_to_json({}));
  EXPECT_EQ(json["front"], nlohmann::json::array());
  EXPECT_TRUE(json["baseline"]["losses"].is_null());
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) all.push_back(line);
  return all;
}

TEST(SummaryTable, Wide) {
  const auto table = lines(summary_table(small_summary(), {100}));
  ASSERT_EQ(table.size(), 11U);  // heads, float, int8, six points, two lines of what it means
  EXPECT_EQ(table[0], "    name       size     kept      kl  changed    top1  latency");
  EXPECT_EQ(table[1], "    float  14.00 MB    0.0 %       0    0.0 %  72.0 %  3.21 ms");
  EXPECT_EQ(table[2], "    int8    3.60 MB  100.0 %   0.462   23.1 %  56.6 %  3.31 ms");
  EXPECT_EQ(table[5], ">*  3       4.46 MB   91.7 %     0.1    5.0 %  68.7 %  3.71 ms");
  EXPECT_EQ(table[9], "> use this one  * nearest to the ideal");
  EXPECT_EQ(table[10], "kept: bytes saved, of int8's; kl: against float, 0 is equal; changed: answers unlike float's");
}

TEST(SummaryTable, FitsItsColumns) {
  auto summary = small_summary();
  summary.judged_by = "top1_disagreement";
  summary.as_good_as_float = true;
  for (int columns = 100; columns > 0; --columns)
    for (const auto& line : lines(summary_table(summary, {columns})))
      EXPECT_LE(std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; }), columns) << line;
  EXPECT_EQ(lines(summary_table(small_summary(), {31}))[2], "    int8    3.60 MB   0.462");
  // The sentence is broken between words.
  const auto table = lines(summary_table(summary, {60}));
  EXPECT_EQ(table[0], "Use models/0000000000000013.onnx: 3.1 x smaller, 1.2 x");
  EXPECT_EQ(table[1], "  slower, 5.0 % of the answers change.");
}

// A front of thirty points; those that are told from the one before by nothing are folded into it.
Summary long_front() {
  Summary summary = small_summary();
  summary.front.clear();
  for (int i = 0; i < 30; ++i) {
    SummaryPoint point = measured_point("hash" + std::to_string(i), 0, 3700000 + 100000 * i, 0.7 / (1 + i));
    point.name = std::to_string(i + 1);
    if (i == 0) point.trial.measurement->losses.top1_disagreement = 0.4;
    if (i == 2 || i == 3 || i == 20) point.alike = "hash1";
    summary.front.push_back(point);
  }
  summary.front.push_back(summary.front.back());  // larger than float, and no faster
  summary.front.back().trial.id = "hash30", summary.front.back().name = "31";
  summary.front.back().trial.measurement->size_bytes = 14100000;
  summary.top = {"hash20", "hash10", "hash11"};
  summary.selected = "hash12";
  return summary;
}

std::string name_of(const std::string& line) { return line.substr(4, line.find(' ', 4) - 4); }

TEST(SummaryTable, AtMostTwelveRows) {
  const auto table = lines(summary_table(long_front(), {100}));
  std::vector<std::string> names;
  for (size_t i = 1; i <= 12; ++i) names.push_back(name_of(table.at(i)));
  // 1 changes two answers in five; 3 and 4 are folded into 2; 21 would be, but is among the top three.
  EXPECT_EQ(names,
            (std::vector<std::string>{"float", "int8", "2", "8", "11", "12", "13", "15", "20", "21", "25", "30"}));
  EXPECT_EQ(table.at(3).substr(0, 4), "  ~ ");
  EXPECT_EQ(table.at(7).substr(0, 4), ">   ");
  EXPECT_EQ(table.at(10).substr(0, 4), " *  ");
  EXPECT_EQ(table.at(13), "    21 more in report.html");
  EXPECT_NE(table.at(14).find("  ~ some larger ones are no better"), std::string::npos) << "21 and others are shown";
}

TEST(SummaryTable, WhatIsFasterIsNotFolded) {
  auto summary = long_front();
  summary.objectives = {"kl", "size", "latency"};
  summary.front.resize(8);
  summary.top.clear();
  summary.front[3].trial.measurement->latency.median_ns = 3000000;  // less than nine in ten runs of `2`
  summary.selected = summary.front[4].trial.id;
  const std::string table = summary_table(summary, {100});
  EXPECT_EQ(table.find("    3 "), std::string::npos) << table;
  EXPECT_NE(table.find("    4 "), std::string::npos) << table;
}

TEST(SummaryTable, SaysWhereTimesTellLittle) {
  auto summary = small_summary();
  EXPECT_EQ(summary_table(summary).find("p10-p90"), std::string::npos);
  summary.baseline.trial.measurement->latency = {.median_ns = 4600000, .p10_ns = 3300000, .p90_ns = 9000000};
  const std::string table = summary_table(summary);
  EXPECT_NE(table.find("latency       p10-p90\n"), std::string::npos) << table;
  EXPECT_NE(table.find("4.60 ms  3.30-9.00 ms\n"), std::string::npos) << table;
  EXPECT_NE(table.find("latency of 3: nine runs in ten 3.60-3.90 ms, float's 3.30-9.00 ms: not told apart\n"),
            std::string::npos)
      << table;
}

TEST(SummaryTable, SaysWhatTheLatencyOfADecoderIsOf) {
  auto summary = small_summary();
  summary.baseline.trial.measurement->decode_latency = Latency{100, 100, 100};
  for (const auto& [task, run] : {std::pair{"generate", "latency: on a prompt;"}, {"transcribe", "on a whole text;"}}) {
    summary.task = task;
    EXPECT_NE(summary_table(summary).find(run), std::string::npos) << summary_table(summary);
  }
}

TEST(SummaryTable, WithoutLabelsOrMeasurement) {
  auto summary = small_summary();
  summary.front.clear();
  summary.selected.clear();
  summary.baseline.trial.measurement->metrics.clear();
  summary.baseline.trial.measurement->latency = {};
  summary.fully_quantized.trial.measurement.reset();
  EXPECT_EQ(summary_table(summary),
            "    name       size  kl  changed  latency\n"
            "    float  14.00 MB   0    0.0 %        -\n"
            "    int8     failed   -        -        -\n");
  EXPECT_EQ(summary_table({}), "    name  size  kl  changed  latency\n");
}

// What saves nothing, or a fortieth, is no measure of what others save.
TEST(SummaryTable, KeptIsOfWhatInt8Saves) {
  auto summary = small_summary();
  for (const int64_t size : {15000000, 13650000}) {
    summary.fully_quantized.trial.measurement->size_bytes = size;
    const std::string table = summary_table(summary, {200});
    EXPECT_EQ(table.find("kept"), std::string::npos) << table;
  }
  summary.fully_quantized.trial.measurement->size_bytes = 12000000;
  EXPECT_NE(summary_table(summary, {200}).find("kept"), std::string::npos);
}

TEST(SummaryTable, MapsAndValuesHaveNoFirstClassUnlessLabelsSaySo) {
  auto summary = small_summary();
  summary.objectives = {"nmse", "size"};
  EXPECT_NE(summary_table(summary).find("changed"), std::string::npos);
  summary.front.clear();
  for (SummaryPoint* point : {&summary.baseline, &summary.fully_quantized}) point->trial.measurement->metrics.clear();
  EXPECT_EQ(summary_table(summary).find("changed"), std::string::npos);
  EXPECT_NE(summary_table(summary).find("nmse"), std::string::npos);
}

// The tolerance is held against nmse, and the search of a regression goes by mse.
TEST(SummaryTable, ShowsTheFigureThatDecidesAndTheMetricsThatWereAskedFor) {
  auto summary = small_summary();
  summary.header.options_json =
      R"({"metrics":[{"name":"mae"},{"command":"own:max:x"},{"name":"top1"},{"name":"wer"}]})";
  summary.objectives = {"mse", "size"};
  summary.judged_by = "nmse";
  summary.fully_quantized.trial.measurement->losses.nmse = 0.034;
  for (SummaryPoint* point : {&summary.baseline, &summary.fully_quantized, &summary.front[0]})
    point->trial.measurement->metrics = {{"mae", 45.87}, {"own", 2}, {"rmse", 7}};
  summary.front.resize(1);
  summary.front[0].trial.measurement->losses.nmse = 0.034;
  const std::string table = summary_table(summary);
  EXPECT_NE(table.find(" mse   nmse   mae  own  latency\n"), std::string::npos) << table;
  EXPECT_NE(table.find(" 0.924  3.4 %  45.9    2  3.31 ms\n"), std::string::npos) << table;
  EXPECT_NE(table.find("nmse: squared error, of the outputs' variance"), std::string::npos);
  summary.objectives = {"nmse", "size"};
  EXPECT_EQ(summary_table(summary).find("3.4 %"), std::string::npos) << "told by the loss";
}

TEST(SummaryTable, SaysWhatOfFloatsSizeNoSchemeSaved) {
  auto summary = small_summary();
  summary.size_note = "2.00 MB of the 14.00 MB are notes";
  EXPECT_NE(summary_table(summary).find("\n2.00 MB of the 14.00 MB are notes\n"), std::string::npos);
}

TEST(SummaryTable, TheSelectedPointHasAColour) {
  const auto table = lines(summary_table(small_summary(), {100, true}));
  EXPECT_EQ(std::ranges::count_if(table, [](const auto& line) { return line.find('\033') != std::string::npos; }), 1);
}

}  // namespace
}  // namespace seqto
