#include <fmt/format.h>
#include <gtest/gtest.h>

#include "seqto/error.h"
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

const Node* find(const Model& model, const std::string& op_type) {
  for (const Node& node : model.graph.nodes)
    if (node.op_type == op_type) return &node;
  return nullptr;
}

TEST(Dequantize, TheTypeOfCodesWithoutAZeroPointIsTold) {
  const Dequantized twin = dequantize(
      parse_model_text("<ir_version: 10, opset_import: [\"\" : 21]> g (float[2] x) => (float[2] y) <float s = {0.1}> {"
                       " a = Neg(x) q = QuantizeLinear<output_dtype = 3>(a, s) y = DequantizeLinear(q, s) }"));
  EXPECT_EQ(find(twin.model, "Relu"), nullptr);
  EXPECT_FLOAT_EQ(twin.ranges.at("y").lowest, -12.8f);
}

TEST(Dequantize, ASliceThatEndsAtTheLargestNumberIsToTheEnd) {
  const Dequantized twin =
      dequantize(parse_model_text("<ir_version: 8, opset_import: [\"\" : 17]> g (float[1,3] x) => (float[1,2] y)"
                                  " <int8[4,2] w = {1,2,3,4,5,6,7,8}, int64[1] first = {1}, int64[1] last = "
                                  "{9223372036854775807}, int64[1] axis = {0}> {"
                                  " c = Cast<to = 1>(w) s = Slice(c, first, last, axis) y = MatMul(x, s) }"));
  const Node* product = find(twin.model, "MatMul");
  ASSERT_NE(product, nullptr);
  const Tensor* weight = twin.model.graph.initializer(product->inputs[1]);
  ASSERT_NE(weight, nullptr);
  EXPECT_EQ(weight->dims(), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(weight->values<float>()[0], 3);
}

TEST(Dequantize, ADequantizeLinearThatStaysKeepsItsAxis) {
  const Dequantized twin = dequantize(parse_model_text(
      "<ir_version: 8, opset_import: [\"\" : 17]> g (int8[2,2] q) => (float[2,2] y)"
      " <float[2] s = {1, 2}, int8[2] z = {0, 0}> { d = DequantizeLinear<axis = 0>(q, s, z) y = Neg(d) }"));
  const Node* stays = find(twin.model, "DequantizeLinear");
  ASSERT_NE(stays, nullptr);
  EXPECT_EQ(stays->int_attribute("axis", 1), 0);
}

TEST(Dequantize, ConstantsOfOtherTypesStay) {
  Model model = parse_model_text(
      "<ir_version: 10, opset_import: [\"\" : 21]> g (float[2] x) => (float[2] y) <uint8[2] w = {1, 2}, float s = {0.1}, uint8 z = {0}> {"
      " c = Cast<to = 1>(w) a = Add(x, c) q = QuantizeLinear(a, s, z) y = DequantizeLinear(q, s, z) }");
  Tensor& codes = model.graph.initializers[0].tensor;
  const std::vector<std::byte> bytes(codes.bytes().begin(), codes.bytes().end());
  codes = Tensor::from(DataType::kFloat8e4m3fn, {2}, bytes);
  EXPECT_NE(find(dequantize(model).model, "Cast"), nullptr);
}

// A constant divides the rows, and not what is made of them.
TEST(Dequantize, RowsDividedByAConstantNodeHaveNoForm) {
  EXPECT_THROW(
      dequantize(parse_model_text("<ir_version: 8, opset_import: [\"\" : 17]> g (float[2,2] x) => (float[2,2] y)"
                                  " <float s = {0.1}, uint8 z = {0}, int8[2,2] w = {1,2,3,4}, float ws = {0.5}> {"
                                  " c = Constant<value = float[2,1] {1, 2}>() d = Div(x, c) q = QuantizeLinear(d, s, z)"
                                  " p = MatMulInteger(q, w) f = Cast<to = 1>(p) m = Mul(f, ws) y = Mul(m, c) }")),
      Error);
}

}  // namespace
}  // namespace seqto
