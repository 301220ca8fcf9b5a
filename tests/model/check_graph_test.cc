// What no reader of a graph has to ask, because no file that lacks it is loaded.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "model/parse_with.h"
#include "seqto/error.h"
#include "seqto/model.h"

namespace seqto {
namespace {

Model model_of(const std::string& graph) {
  return parse_model_text(R"(<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> )" + graph);
}

// The message of the error that loading gives; "" where it gives none.
std::string refused(const Model& model) {
  try {
    parse_model(serialize(model));
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidInput);
    return error.what();
  }
}

void expect_refused(const Model& model, const std::string& words) {
  const std::string message = refused(model);
  EXPECT_NE(message.find(words), std::string::npos) << "'" << words << "' expected in '" << message << "'";
}

// One node on x, float[4], with more inputs that are graph inputs, too.
Model one_node(const std::string& node) {
  return model_of("g (float[4] x, float s, uint8 z) => (float[4] y) { " + node + " }");
}

TEST(CheckGraph, OneVersionOfADomain) {
  Model model = model_of("g (float[1, 4] x) => (float[1, 4] y) { y = Relu (x) }");
  model.opsets.push_back({"", 13});
  expect_refused(model, "opsets 17 and 13 of one domain");
  model.opsets.back().version = 17;
  EXPECT_EQ(refused(model), "");
}

TEST(CheckGraph, OperatorsOnCodesHaveTheirInputs) {
  for (const char* node :
       {"y = QuantizeLinear(x)", "y = DequantizeLinear(x)", "y = DequantizeLinear(x, \"\")",
        "y = com.microsoft.QuantizeLinear(x)", "y = com.microsoft.DequantizeLinear(\"\", s)",
        "y = com.microsoft.QLinearAdd(x, s, z, x, s, z)", "y = com.microsoft.QGemm(x, s, z, x)",
        "y = com.microsoft.QLinearConcat(s, z, x)", "y = com.microsoft.MatMulNBits(x, x)",
        "y = com.microsoft.QLinearSigmoid(x, \"\", z, s)", "y = com.microsoft.QAttention(x, x)",
        "y = com.microsoft.DynamicQuantizeLSTM(x, x, x)", "y = com.microsoft.GatherBlockQuantized(x, z)"})
    expect_refused(one_node(node), "without input");
  for (const char* node : {"y = QLinearConv(x, s, z, x)", "y = QLinearMatMul(x, s, z, x)", "y = ConvInteger(x)"})
    EXPECT_NE(refused(one_node(node)), "") << node;
  expect_refused(one_node("y = DynamicQuantizeLinear(x)"), "3 were expected");
  EXPECT_EQ(refused(one_node("y = com.microsoft.QLinearAdd(x, s, \"\", x, s, \"\", s)")), "");
}

TEST(CheckGraph, NodesAreAsOnnxHasThem) {
  expect_refused(one_node("y = Relu()"), "input size 0");
  expect_refused(one_node("y = Add(x, \"\")"), "empty string");
  expect_refused(one_node("y = Relu <alpha = 1.0> (x)"), "Unrecognized attribute");
  Model model = one_node("y = Relu(x)");
  model.graph.nodes.push_back({"loose", "Relu", "", {"x"}, {}, {}, {}});
  expect_refused(model, "Relu 'loose' without outputs");
  model.graph.nodes.back().domain = "some.tool";
  expect_refused(model, "without outputs");
  EXPECT_EQ(refused(one_node("y = some.tool.Anything(x)")), "");
  expect_refused(one_node("y = some.tool.Gather(x)"),
                 "Gather 'y' of the domain 'some.tool' with 1 inputs found; at least 2");
  EXPECT_EQ(refused(one_node("y = com.microsoft.Range(x, x)")), "");
}

TEST(CheckGraph, WhatIsReadIsWrittenOnce) {
  expect_refused(one_node("y = Add(x, nowhere)"), "reads 'nowhere'");
  expect_refused(one_node("a = Relu(x)"), "output 'y'");
  expect_refused(one_node("y = Relu(x) y = Abs(x)"), "writes 'y' once more");
  expect_refused(one_node("x = Relu(s) y = Abs(x)"), "writes 'x' once more");
  expect_refused(model_of("g (float x, float x) => (float y) { y = Relu(x) }"), "two inputs 'x'");
  EXPECT_EQ(refused(one_node("y = Relu(later) later = Abs(x)")), "");
}

TEST(CheckGraph, NobodyReadsWhatFollowsFromIt) {
  expect_refused(one_node("a = Add(x, b) b = Relu(a) y = Abs(x)"), "without cycles");
  expect_refused(one_node("y = Add(x, y)"), "without cycles");
}

TEST(CheckGraph, BodiesAreCheckedWithWhatIsAround) {
  auto with_body = [](const std::string& body) {
    return model_of(
        "g (bool c, float[4] x) => (float[4] y) { a = Abs(x) y = If(c) <then_branch = t () => (float[4] r) { " + body +
        " }, else_branch = e () => (float[4] n) { n = Neg(a) }> }");
  };
  EXPECT_EQ(refused(with_body("r = Relu(a)")), "");
  expect_refused(with_body("r = Add(a, nowhere)"), "reads 'nowhere'");
  expect_refused(with_body("r = com.microsoft.DequantizeLinear(a)"), "without input 1");
  expect_refused(with_body("q = Relu(r) r = Relu(q)"), "without cycles");
  expect_refused(with_body("r = Relu(y)"), "without cycles");
}

TEST(CheckGraph, ConstantsHaveTheRankOfTheirOperator) {
  // Dynamic quantization wrote past the end of a shape for each of these.
  expect_refused(model_of("g (float[1,2,4] x) => (float[1,2,4] y) <float[2] w = {1, 2}, float[2] b = {1, 2}> "
                          "{ y = Conv(x, w, b) }"),
                 "1 dimensions of 'w'");
  expect_refused(model_of("g (float[2,4] x) => (float[2,1] y) <float[4] w = {1, 2, 3, 4}> "
                          "{ y = Gemm <transB = 1> (x, w) }"),
                 "1 dimensions of 'w'");
  expect_refused(model_of("g (float[2,4] x) => (float[2,1] y) "
                          "{ w = Constant <value = float {1}> () y = MatMul(x, w) }"),
                 "0 dimensions of 'w'");
  EXPECT_EQ(refused(model_of("g (float[2,4] x) => (float[2] y) <float[4] w = {1, 2, 3, 4}> { y = MatMul(x, w) }")), "");
}

TEST(CheckGraph, WeightsMayComeApart) {
  Model model = model_of("g (float[4] x) => (float[4] y) <float[4] w = {1, 2, 3, 4}> { y = Add(x, w) }");
  std::vector<Initializer> weights = std::move(model.graph.initializers);
  model.graph.initializers.clear();
  expect_refused(model, "reads 'w'");
  EXPECT_EQ(internal::parse_with(serialize(model), weights).graph.initializers.at(0).name, "w");
}

TEST(CheckGraph, NamesAreText) {
  Model model = one_node("y = Relu(x)");
  model.graph.nodes[0].name = "\xE5layer";
  expect_refused(model, "\\xE5layer");
}

TEST(CheckGraph, TensorsHaveAType) {
  Model model = model_of("g (float[4] x) => (float[4] y) <float[4] w = {1, 2, 3, 4}> { y = Add(x, w) }");
  for (int type : {0, 77}) {
    model.graph.initializers[0].tensor = Tensor(static_cast<DataType>(type), {4}, nullptr, {});
    expect_refused(model, fmt::format("type {}", type));
  }
}

TEST(InferShapes, ContradictionsAreNoInternalErrors) {
  // The file says that w is a float; runtimes go by the weight.
  Model model = model_of("g (int8[4] x) => (int8[4] y) <int8[4] w = {1, 2, 3, 4}, float[4] w> { y = Add(x, w) }");
  EXPECT_NO_THROW(infer_shapes(model));
  model = model_of("g (float[4] x, float[2,2] w) => (float[4] y) <float[4] w = {1, 2, 3, 4}> { y = Add(x, w) }");
  EXPECT_THROW(infer_shapes(model), Error);
}

}  // namespace
}  // namespace seqto
