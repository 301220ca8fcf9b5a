#include <fmt/format.h>
#include <gtest/gtest.h>

#include "seqto/prepare.h"

namespace seqto {
namespace {

// Each Add reads the one before twice: there are 2^40 ways back to the Relu.
TEST(Dequantize, SumsBehindAReluAreFollowedOnce) {
  std::string nodes = "a0 = Relu(x)";
  for (int i = 0; i < 40; ++i) nodes += fmt::format(" a{} = Add(a{}, a{})", i + 1, i, i);
  const Dequantized twin = dequantize(parse_model_text(
      "<ir_version: 8, opset_import: [\"\" : 17]> g (float[2] x) => (float[2] y) <float s = {0.1}, uint8 z = {0}> {" +
      nodes + " q = QuantizeLinear(a40, s, z) y = DequantizeLinear(q, s, z) }"));
  EXPECT_EQ(twin.model.graph.nodes.size(), 41u);
}

TEST(Dequantize, WhatMayBeNegativeBehindThemGetsItsReluBack) {
  const Dequantized twin = dequantize(parse_model_text(
      "<ir_version: 8, opset_import: [\"\" : 17]> g (float[2] x) => (float[2] y) <float s = {0.1}, uint8 z = {0}> {"
      " a = Relu(x) b = Neg(a) c = Add(a, a) d = Add(c, b)"
      " q = QuantizeLinear(d, s, z) y = DequantizeLinear(q, s, z) }"));
  ASSERT_EQ(twin.model.graph.nodes.size(), 5u);
  EXPECT_EQ(twin.model.graph.nodes.back().op_type, "Relu");
}

}  // namespace
}  // namespace seqto
