// QOperator form and dynamic quantization where the answer is known; tests/differential compares the rest with
// onnxruntime.
#include <gtest/gtest.h>

#include <algorithm>

#include "seqto/error.h"
#include "seqto/quantize.h"

namespace seqto {
namespace {

Model inferred(const std::string& text) {
  Model model = infer_shapes(parse_model_text(text));
  name_nodes(model);
  return model;
}

std::vector<std::string> op_types(const Model& model) {
  std::vector<std::string> types;
  for (const Node& n : model.graph.nodes) types.push_back(n.op_type);
  return types;
}

Model dynamic(const Model& model, QuantizeOptions options = {}) {
  Quantizer quantizer(model, {}, std::move(options));
  Model result = quantizer.quantize_excluding({}, Scheme::kInt8Dynamic);
  check_model(result);
  return result;
}

constexpr const char* kMatMul = R"(<ir_version: 8, opset_import: ["" : 17]>
  g (float[2,3] x) => (float[2,2] y) <float[3,2] w = {1, -2, 0.5, 4, -1, 0}> { y = MatMul(x, w) })";

TEST(Dynamic, MatMulBecomesIntegers) {
  Model result = dynamic(inferred(kMatMul));
  EXPECT_EQ(op_types(result),
            (std::vector<std::string>{"DynamicQuantizeLinear", "MatMulInteger", "Cast", "Mul", "Mul"}));
  const Tensor* w = result.graph.initializer("w_quantized");
  ASSERT_TRUE(w);
  EXPECT_EQ(w->type(), DataType::kInt8);
  EXPECT_EQ(std::vector<int8_t>(w->values<int8_t>().begin(), w->values<int8_t>().end()),
            (std::vector<int8_t>{32, -64, 16, 127, -32, 0}));  // 31.75 and -31.75 round to 32, -63.5 to even
  EXPECT_EQ(result.graph.initializer("w_scale")->values<float>()[0], static_cast<float>(8.0 / 254.0));
  EXPECT_FALSE(result.graph.initializer("w"));
}

TEST(Dynamic, TransposedWeightIsStoredTheOtherWay) {
  const char* text = R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[2,3] x) => (float[2,2] y) <float[2,3] w = {1, 2, 3, 4, 5, 6}> { y = Gemm <transB = 1> (x, w) })";
  Model result = dynamic(inferred(text));
  const Tensor* w = result.graph.initializer("w_quantized");
  EXPECT_EQ(w->dims(), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(std::vector<int8_t>(w->values<int8_t>().begin(), w->values<int8_t>().end()),
            (std::vector<int8_t>{21, 85, 42, 106, 64, 127}));
}

TEST(Dynamic, LstmOfTheSecondLayoutStaysFloat) {
  const char* text = R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[2,3,1] x) => (float[2,3,1,1] y)
    <float[1,4,1] w = {1, 2, 3, 4}, float[1,4,1] r = {1, 2, 3, 4}> {
      y = LSTM <hidden_size = 1, layout = 1> (x, w, r) })";
  Quantizer quantizer(inferred(text), {}, {});
  EXPECT_EQ(op_types(quantizer.quantize_excluding({}, Scheme::kInt8Dynamic)), std::vector<std::string>{"LSTM"});
  EXPECT_EQ(quantizer.deviations(), std::vector<std::string>{"D28"});
}

TEST(Dynamic, OldOpsetsAndWideTypesAreRefused) {
  const char* text = R"(<ir_version: 5, opset_import: ["" : 10]>
    g (float[2,3] x) => (float[2,2] y) <float[3,2] w = {1, -2, 0.5, 4, -1, 0}> { y = MatMul(x, w) })";
  EXPECT_THROW(dynamic(inferred(text)), Error);
  QuantizeOptions wide{.activation_type = DataType::kUint16, .weight_type = DataType::kInt8};
  wide.format = QuantFormat::kQoperator;
  const char* newer = R"(<ir_version: 10, opset_import: ["" : 21]>
    g (float[2,3] x) => (float[2,2] y) <float[3,2] w = {1, -2, 0.5, 4, -1, 0}> { y = MatMul(x, w) })";
  EXPECT_THROW(Quantizer(inferred(newer), {}, wide), Error);
}

Model qoperator(const Model& model, const Ranges& ranges, std::vector<std::string>* ids = nullptr) {
  QuantizeOptions options;
  options.format = QuantFormat::kQoperator;
  Quantizer quantizer(model, ranges, options);
  Model result = quantizer.quantize_excluding({});
  check_model(result);
  if (ids) *ids = quantizer.deviations();
  return result;
}

TEST(Qoperator, MatMulOfCodes) {
  Model result = qoperator(inferred(kMatMul), {{"x", {-1, 1}}, {"y", {-4, 4}}});
  EXPECT_EQ(op_types(result), (std::vector<std::string>{"QuantizeLinear", "QLinearMatMul", "DequantizeLinear"}));
  EXPECT_EQ(result.graph.nodes[1].inputs[3], "w_quantized");
}

// Relu may go only where the codes have nothing below 0.
TEST(Qoperator, ReluGoesWhereCodesHaveNothingToCut) {
  const char* chain = R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[2,3] x) => (float[2,2] y) <float[3,2] w = {1, -2, 0.5, 4, -1, 0}> { t = MatMul(x, w) y = Relu(t) })";
  Ranges ranges{{"x", {-1, 1}}, {"t", {-4, 4}}, {"y", {0, 4}}};
  std::vector<std::string> ids;
  EXPECT_EQ(op_types(qoperator(inferred(chain), ranges, &ids)),
            (std::vector<std::string>{"QuantizeLinear", "QLinearMatMul", "DequantizeLinear"}));
  EXPECT_TRUE(ids.empty());
  // A second reader needs the negative values: the range stays, and so does the Relu.
  const char* shared = R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[2,3] x) => (float[2,2] y, float[2,2] z) <float[3,2] w = {1, -2, 0.5, 4, -1, 0}> {
      t = MatMul(x, w) y = Relu(t) z = Abs(t) })";
  auto types = op_types(qoperator(inferred(shared), ranges, &ids));
  EXPECT_EQ(std::count(types.begin(), types.end(), "Relu"), 1);
  EXPECT_EQ(ids, std::vector<std::string>{"D31"});
}

// One plan, both kinds: static layers first, then those whose activations are quantized at run time.
TEST(Plan, StaticAndDynamicLayersTogether) {
  const char* text = R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[2,3] x) => (float[2,2] y) <float[3,2] w = {1, -2, 0.5, 4, -1, 0}, float[2,2] v = {1, 2, 3, 4}> {
      t = MatMul(x, w) y = MatMul(t, v) })";
  for (QuantFormat format : {QuantFormat::kQdq, QuantFormat::kQoperator}) {
    QuantizeOptions options;
    options.format = format;
    Quantizer quantizer(inferred(text), {{"x", {-1, 1}}, {"t", {-4, 4}}}, options);
    Model result = quantizer.quantize({{{"node_0", Scheme::kInt8}, {"node_1", Scheme::kInt8Dynamic}}});
    check_model(result);
    auto types = op_types(result);
    EXPECT_EQ(std::count(types.begin(), types.end(), "MatMulInteger"), 1);
    EXPECT_EQ(std::count(types.begin(), types.end(), "DynamicQuantizeLinear"), 1);
    EXPECT_TRUE(result.graph.initializer("w_quantized") && result.graph.initializer("v_quantized"));
  }
}

TEST(Qoperator, SameBytesTwice) {
  Ranges ranges{{"x", {-1, 1}}, {"y", {-4, 4}}};
  Model model = inferred(kMatMul);
  EXPECT_EQ(serialize(qoperator(model, ranges)), serialize(qoperator(model, ranges)));
}

}  // namespace
}  // namespace seqto
