#include "seqto/report.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace seqto {
namespace {

constexpr auto kName = TableColumn::kName;
constexpr auto kText = TableColumn::kText;
constexpr auto kFigure = TableColumn::kFigure;
constexpr auto kValue = TableColumn::kValue;
constexpr auto kVerdict = TableColumn::kVerdict;

using Lines = std::vector<std::string>;

TEST(Table, IsAsWideAsItsCells) {
  EXPECT_EQ(table_lines({{"name"}, {"size", kFigure}}, {{"a", "1 kB"}, {"größer", "20.5 kB"}}),
            (Lines{"name       size", "a          1 kB", "größer  20.5 kB"}));
  EXPECT_EQ(table_lines({{"name"}}, {}), Lines{"name"});
  EXPECT_EQ(table_lines({}, {}), Lines{""});
}

TEST(Table, CutsTextsThenLeavesColumnsOutThenCutsLines) {
  const std::vector<TableColumn> columns{{"model", kName}, {"why", kText}, {"size", kFigure}, {"p99", kFigure, 1}};
  const std::vector<TableRow> rows{{"folder/of/models/net.onnx", "it is too small for it", "1.25 kB", "12.5 ms"}};
  EXPECT_EQ(table_lines(columns, rows, {67})[1], "folder/of/models/net.onnx  it is too small for it  1.25 kB  12.5 ms");
  EXPECT_EQ(table_lines(columns, rows, {60})[1], "…/of/models/net.onnx  it is too small for…  1.25 kB  12.5 ms");
  EXPECT_EQ(table_lines(columns, rows, {45})[1], "…models/net.onnx  it is too small…  1.25 kB");
  EXPECT_EQ(table_lines(columns, rows, {40})[1], "…dels/net.onnx  it is too smal…  1.25 kB");
  EXPECT_EQ(table_lines(columns, rows, {20})[1], "…et.onnx  it is t…");
}

TEST(Table, FitsAnyWidth) {
  const std::vector<TableColumn> columns{
      {"a", kName}, {"b", kVerdict}, {"c", kValue}, {"d", kFigure, 2}, {"e", kFigure, 1}};
  const std::vector<TableRow> rows{{std::string(40, 'x'), "FAILED", std::string(40, 'y'), "123456789", "µµµµµµ"}};
  for (int most = 1; most < 120; ++most)
    for (const std::string& line : table_lines(columns, rows, {most}))
      EXPECT_LE(std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; }), most) << line;
}

TEST(Table, ColoursAreForVerdictsAloneAndTakeNoRoom) {
  const std::vector<TableColumn> columns{{"verdict", kVerdict}, {"is", kText}};
  const std::vector<TableRow> rows{{"ok", "ok"}, {"FAILED", "FAILED"}};
  EXPECT_EQ(table_lines(columns, rows, {0, true}),
            (Lines{"verdict  is", "\033[32mok\033[0m       ok", "\033[1;31mFAILED\033[0m   FAILED"}));
  EXPECT_EQ(table_lines(columns, rows, {4, true})[2], "FAIL");  // no half an escape sequence
  EXPECT_EQ(painted("", Colour::kGood, {0, true}), "");
  EXPECT_EQ(painted("x", Colour::kGood, {}), "x");
}

}  // namespace
}  // namespace seqto
