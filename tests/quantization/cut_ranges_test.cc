#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "model/op_traits.h"
#include "seqto/improve.h"

namespace seqto {
namespace {

Ranges cut(const std::string& nodes, float lowest = -50, float highest = 20) {
  Model model = parse_model_text(R"(<ir_version: 8, opset_import: ["" : 14]>
g (float[1,4] x, float[4,4] w) => (float y) {
  a = MatMul (x, w)
)" + nodes + "}");
  return cut_ranges(model, {{"a", {lowest, highest}}, {"x", {-100, 100}}});
}

TEST(CutRanges, EndWhereASiluNoLongerChanges) {
  const Ranges found = cut("  s = Sigmoid (a)\n  y = Mul (a, s)");
  EXPECT_FLOAT_EQ(found.at("a").lowest, -10);
  EXPECT_FLOAT_EQ(found.at("a").highest, 20) << "the product goes on";
  EXPECT_FLOAT_EQ(found.at("x").lowest, -100) << "a layer reads it";
}

TEST(CutRanges, EndOnBothSidesOfASigmoid) {
  const Range found = cut("  y = Sigmoid (a)").at("a");
  EXPECT_FLOAT_EQ(found.lowest, -7.7f);
  EXPECT_FLOAT_EQ(found.highest, 7.7f);
}

TEST(CutRanges, GoByTheSlopeOfAHardSigmoid) {
  const Range found = cut("  s = HardSigmoid <alpha = 0.25> (a)\n  y = Mul (s, a)").at("a");
  EXPECT_FLOAT_EQ(found.lowest, -2);
  EXPECT_FLOAT_EQ(found.highest, 20);
}

TEST(CutRanges, StayWhereSomethingElseReads) {
  for (const char* nodes :
       {"  s = Sigmoid (a)\n  m = Mul (a, s)\n  y = Add (m, a)", "  s = Sigmoid (a)\n  y = Mul (a, x)",
        "  s = Sigmoid (x)\n  y = Mul (a, s)", "  y = Relu (a)"})
    EXPECT_FLOAT_EQ(cut(nodes).at("a").lowest, -50) << nodes;
}

TEST(CutRanges, StayWhereTheyAreNarrower) {
  EXPECT_FLOAT_EQ(cut("  y = Sigmoid (a)", -2, 3).at("a").lowest, -2);
  EXPECT_FLOAT_EQ(cut("  y = Sigmoid (a)", -40, -20).at("a").highest, -20) << "nothing is left between the ends";
}

TEST(CutRanges, EndWithinAHalfThousandthOfTheLimit) {
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  struct Function {
    const char* name;
    std::function<double(double)> of;
  };
  const Function functions[] = {
      {"Gelu", [](double x) { return x * std::erfc(-x / std::sqrt(2)) / 2; }},
      {"HardSwish", [](double x) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); }},
      {"Sigmoid", sigmoid},
      {"Swish", [&](double x) { return x * sigmoid(x); }},
      {"Tanh", [](double x) { return std::tanh(x); }},
  };
  for (const auto& [name, of] : functions) {
    const auto ends = internal::bends({.name = "", .op_type = name, .inputs = {"x"}, .outputs = {"y"}});
    ASSERT_TRUE(ends) << name;
    EXPECT_NEAR(of(ends->low), of(-100), 0.0005) << name;
    if (std::isfinite(ends->high)) {
      EXPECT_NEAR(of(ends->high), of(100), 0.0005) << name;
    }
    if (std::isfinite(ends->low_times)) {
      EXPECT_NEAR(ends->low_times * of(ends->low_times), 0, 0.0005) << name;
    }
  }
}

}  // namespace
}  // namespace seqto
