#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "base/files.h"
#include "model/float16.h"
#include "model/sort_nodes.h"
#include "seqto/error.h"
#include "seqto/model.h"

namespace seqto {
namespace {

Model small() {
  Model model = parse_model_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[N,2,4,4] x) => (float[N,3,4,4] y)
    <float[3,2,1,1] w = {1,2,3,4,5,6}, float[3] b = {0.5,-0.5,0}> {
      c = Conv(x, w, b)
      y = Relu(c)
    })");
  return model;
}

TEST(LoadModel, RoundTripIsIdentical) {
  std::string bytes = serialize(small());
  Model read = parse_model(bytes);
  EXPECT_TRUE(equal(read, small()));
  EXPECT_EQ(serialize(read), bytes);
  EXPECT_EQ(serialized_size(read), static_cast<int64_t>(bytes.size()));
  EXPECT_NO_THROW(check_model(read));
}

Model with_functions(const std::string& functions) {
  return parse_model(serialize(parse_model_text(R"(<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
g (float[1,2] x) => (float[1,2] y) { h = own.Block(x) y = own.Block(h) } )" +
                                                functions)));
}

std::vector<std::string> op_types(const Model& model) {
  std::vector<std::string> types;
  for (const Node& node : model.graph.nodes) types.push_back(node.op_type);
  return types;
}

TEST(LoadModel, TheModelsOwnFunctionsAreInlined) {
  const std::string head = R"(<domain: "own", opset_import: ["" : 17, "own" : 1]> )";
  const Model model = with_functions(head + R"(Block (a) => (b) {
    w = Constant<value = float[2,2] {1, 2, 3, 4}>() m = MatMul(a, w) b = Relu(m) })");
  EXPECT_EQ(std::ranges::count(op_types(model), "MatMul"), 2);
  EXPECT_EQ(std::ranges::count(op_types(model), "Block"), 0);
  EXPECT_NO_THROW(check_model(model));
}

TEST(LoadModel, FunctionsKeepTheirDefaults) {
  const Model model = with_functions(R"(<domain: "own", opset_import: ["" : 17, "own" : 1]>
Block <slope: float = 0.5> (a) => (b) { c = own.Inner(a) b = LeakyRelu<alpha: float = @slope>(c) }
<domain: "own", opset_import: ["" : 17, "own" : 1]>
Inner <slope: float = 0.25> (a) => (b) { b = LeakyRelu<alpha: float = @slope>(a) })");
  std::vector<float> slopes;
  for (const Node& node : model.graph.nodes) slopes.push_back(node.float_attribute("alpha", 0.01F));
  EXPECT_EQ(slopes, (std::vector<float>{0.25F, 0.5F, 0.25F, 0.5F}));
}

TEST(LoadModel, FunctionsWithoutEndAreRefused) {
  const std::string head = R"(<domain: "own", opset_import: ["" : 17, "own" : 1]> )";
  std::string doubling = head + "Block (a) => (b) { c = own.F0(a) b = own.F0(c) }";
  for (int i = 0; i < 60; ++i)
    doubling += fmt::format("{}F{} (a) => (b) {{ c = own.F{}(a) b = own.F{}(c) }}", head, i, i + 1, i + 1);
  for (const std::string& functions : {head + "Block (a) => (b) { c = own.Block(a) b = Relu(c) }",
                                       doubling + head + "F60 (a) => (b) { b = Relu(a) }"}) {
    try {
      with_functions(functions);
      ADD_FAILURE() << functions;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("functions that are 200000 nodes or more"), std::string::npos);
    }
  }
}

// Refused when they are loaded, in words that say what to do: ONNX's checker and runtimes find them later.
TEST(LoadModel, FunctionsAndTheirModelHaveOneOpset) {
  const auto with_opset = [](const std::string& opsets, const std::string& nodes) {
    return with_functions(
        fmt::format("<domain: \"own\", opset_import: [{}]> Block (a) => (b) {{ {} }}", opsets, nodes));
  };
  // Of another opset that has the same operators they are inlined.
  EXPECT_EQ(op_types(with_opset("\"\" : 18", "b = Relu(a)")), (std::vector<std::string>{"Relu", "Relu"}));
  EXPECT_NO_THROW(check_model(with_opset("\"\" : 18", "b = Relu(a)")));
  const std::vector<std::array<std::string, 3>> refused{
      {"\"\" : 13", "b = Relu(a)", "function 'own.Block' of opset 13 found in a model of opset 17, where Relu"},
      {"\"\" : 99", "b = Relu(a)", "function 'own.Block': opset 99 found; 7 to 26 are supported"},
      {"\"own\" : 1", "b = Relu(a)", "function 'own.Block' with Relu and no opset of ai.onnx found"}};
  for (const auto& [opsets, nodes, said] : refused) {
    try {
      with_opset(opsets, nodes);
      ADD_FAILURE() << said;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(said), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(parse_model(serialize(parse_model_text(R"(<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 99]>
g (float[1,2] x) => (float[1,2] y) { y = Relu(x) })"))),
               Error);
}

// What OpenVINO needs to see that a file is a model.
TEST(Serialize, FieldsStandInTheOrderOfTheirNumbers) {
  Model model;
  model.ir_version = 8;
  model.opsets = {{"", 17}, {"com.microsoft", 1}};
  model.metadata = {{"a", "b"}};
  model.graph.name = "g";
  const std::string bytes = serialize(model);
  std::vector<int> fields;
  for (size_t at = 0; at < bytes.size();) {
    const int tag = static_cast<unsigned char>(bytes[at]);
    fields.push_back(tag >> 3);
    at += (tag & 7) == 2 ? 2 + static_cast<unsigned char>(bytes[at + 1]) : 2;  // lengths and numbers below 128
  }
  EXPECT_EQ(fields, (std::vector<int>{1, 7, 8, 8, 14}));
}

TEST(LoadModel, ManyShortInitializersKeepTheirBytes) {
  // Short strings live inside their objects: views of them must survive the move into the list of pieces.
  Model model = small();
  for (int i = 0; i < 50; ++i) model.graph.initializers.push_back({fmt::format("i{}", i), int64_tensor({1}, {i})});
  Model read = parse_model(serialize(model));
  for (int i = 0; i < 50; ++i) EXPECT_EQ(read.graph.initializer("i" + std::to_string(i))->values<int64_t>()[0], i);
}

TEST(LoadModel, WhatIsBrokenIsNamed) {
  std::string bytes = serialize(small());
  for (auto [text, word] : {std::pair<std::string, const char*>{bytes.substr(0, bytes.size() / 2), "truncated"},
                            {"plain text, no model", "not an ONNX model"},
                            {"", "not an ONNX model"}}) {
    try {
      parse_model(text);
      FAIL() << word;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kInvalidInput);
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  }
}

TEST(LoadModel, VersionsOutsideTheSupportedAreRejected) {
  Model model = small();
  model.ir_version = 99;
  EXPECT_THROW(parse_model(serialize(model)), Error);
  model = small();
  model.opsets[0].version = 99;
  EXPECT_THROW(parse_model(serialize(model)), Error);
  model.opsets[0].version = 3;
  EXPECT_THROW(parse_model(serialize(model)), Error);
}

TEST(SerializeDetached, SmallTensorsStayInside) {
  Model model = small();
  model.graph.initializers.push_back({"shape", int64_tensor({2}, {1, -1})});
  model.graph.initializers.push_back({"big", float_tensor({512}, std::vector<float>(512, 1.0f))});
  model.graph.nodes.push_back({"reads", "Relu", "", {"big"}, {"read"}, {}, {}});
  DetachedModel detached = serialize_detached(model, 1024);
  ASSERT_EQ(detached.weights.size(), 1u);
  EXPECT_EQ(detached.weights[0].name, "big");
  EXPECT_LT(detached.proto.size(), 1024u);
}

// ONNX Runtime drops them as it loads a model, and ends where it shall take their bytes from memory.
TEST(SerializeDetached, WeightsThatNothingReadsStayInside) {
  Model model = small();
  model.graph.initializers.push_back({"left_over", float_tensor({512}, std::vector<float>(512, 1.0f))});
  EXPECT_TRUE(serialize_detached(model, 1024).weights.empty());
}

TEST(NameNodes, StableAndUnique) {
  Model model = small();
  model.graph.nodes[0].name = "node_1";
  model.graph.nodes[1].name = "";
  name_nodes(model);
  EXPECT_EQ(model.graph.nodes[0].name, "node_1");
  EXPECT_EQ(model.graph.nodes[1].name, "node_1_1");
  model.graph.nodes[0].name = model.graph.nodes[1].name = "same";
  name_nodes(model);
  EXPECT_NE(model.graph.nodes[0].name, model.graph.nodes[1].name);
}

TEST(InferShapes, FillsTensorsBetween) {
  Model model = infer_shapes(small());
  ASSERT_EQ(model.graph.value_info.size(), 1u);
  EXPECT_EQ(model.graph.value_info[0].name, "c");
  EXPECT_EQ(model.graph.value_info[0].shape->at(1).value, 3);
}

TEST(ConvertOpset, UpwardsOnly) {
  Model model = convert_opset(small(), 19);
  EXPECT_EQ(model.opset(), 19);
  EXPECT_EQ(model.graph.nodes.size(), 2u);
  EXPECT_THROW(convert_opset(small(), 99), Error);
}

TEST(FoldBatchNorms, WeightsAndBiasTakeTheScale) {
  Model model = parse_model_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,1,2,2] x) => (float[1,2,2,2] y)
    <float[2,1,1,1] w = {1,2}, float[2] s = {2,3}, float[2] t = {10,20}, float[2] m = {1,2}, float[2] v = {4,9}> {
      c = Conv(x, w)
      y = BatchNormalization<epsilon = 0.0>(c, s, t, m, v)
    })");
  EXPECT_EQ(fold_batch_norms(model), 1);
  ASSERT_EQ(model.graph.nodes.size(), 1u);
  EXPECT_EQ(model.graph.nodes[0].outputs[0], "y");
  auto w = model.graph.initializer("w")->values<float>();
  EXPECT_FLOAT_EQ(w[0], 1.0f);  // 1 * 2 / sqrt(4)
  EXPECT_FLOAT_EQ(w[1], 2.0f);  // 2 * 3 / sqrt(9)
  auto b = model.graph.initializer(model.graph.nodes[0].inputs[2])->values<float>();
  EXPECT_FLOAT_EQ(b[0], 9.0f);   // (0 - 1) * 1 + 10
  EXPECT_FLOAT_EQ(b[1], 18.0f);  // (0 - 2) * 1 + 20
  EXPECT_EQ(model.graph.initializers.size(), 2u);
  EXPECT_NO_THROW(check_model(model));
}

TEST(FoldBatchNorms, NotWhereTheLayerHasAnotherReader) {
  Model model = parse_model_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,1,2,2] x) => (float[1,1,2,2] y, float[1,1,2,2] c)
    <float[1,1,1,1] w = {1}, float[1] s = {2}, float[1] t = {1}, float[1] m = {1}, float[1] v = {4}> {
      c = Conv(x, w)
      y = BatchNormalization(c, s, t, m, v)
    })");
  EXPECT_EQ(fold_batch_norms(model), 0);
  EXPECT_EQ(model.graph.nodes.size(), 2u);
}

// As exporters write a frozen BatchNormalization.
TEST(FoldBatchNorms, MulAndAddOfAConstantForEachChannel) {
  Model model = parse_model_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,1,2,2] x) => (float[1,2,2,2] y)
    <float[2,1,1,1] w = {1,2}, float[2] b = {1,1}, float[1,2,1,1] s = {2,3}, float[2,1,1] t = {10,20}> {
      c = Conv(x, w, b)
      m = Mul(c, s)
      y = Add(t, m)
    })");
  EXPECT_EQ(fold_batch_norms(model), 2);
  ASSERT_EQ(model.graph.nodes.size(), 1u);
  EXPECT_EQ(model.graph.nodes[0].outputs[0], "y");
  auto w = model.graph.initializer("w")->values<float>();
  EXPECT_FLOAT_EQ(w[0], 2.0f);
  EXPECT_FLOAT_EQ(w[1], 6.0f);
  auto b = model.graph.initializer(model.graph.nodes[0].inputs[2])->values<float>();
  EXPECT_FLOAT_EQ(b[0], 12.0f);
  EXPECT_FLOAT_EQ(b[1], 23.0f);
  EXPECT_NO_THROW(check_model(model));
}

// An anchor for each place, a constant that widens what it is added to, the layer's own output on both sides.
TEST(FoldBatchNorms, NotConstantsThatDifferAlongOtherAxes) {
  for (const char* t : {"float[2] t = {1,2}", "float[1,1,1,2] t = {1,2}", "float[1,1,1,1,1] t = {1}"}) {
    Model model = parse_model_text(std::string(R"(
      <ir_version: 8, opset_import: ["" : 17]>
      g (float[1,1,2,2] x) => (float[N,A,B,C] y)
      <float[2,1,1,1] w = {1,2}, )") +
                                   t + R"(> {
        c = Conv(x, w)
        y = Add(c, t)
      })");
    EXPECT_EQ(fold_batch_norms(model), 0) << t;
  }
}

// Two layers with one weight: a bias of their own hurts neither, a factor would.
TEST(FoldBatchNorms, SharedWeightsTakeNoFactor) {
  Model model = parse_model_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,2] x) => (float[1,2] y, float[1,2] z)
    <float[2,2] w = {1,2,3,4}, float[2] s = {2,3}> {
      a = Gemm(x, w)
      y = Mul(a, s)
      b = Gemm(x, w)
      z = Add(b, s)
    })");
  EXPECT_EQ(fold_batch_norms(model), 1);
  EXPECT_EQ(model.graph.nodes.size(), 3u);
  EXPECT_FLOAT_EQ(model.graph.initializer("w")->values<float>()[0], 1.0f);
}

TEST(SaveModel, ExternalWeightsAreFoundAgain) {
  namespace fs = std::filesystem;
  fs::path dir = fs::temp_directory_path() / "seqto_model_test";
  save_model(small(), dir / "m.onnx");
  EXPECT_TRUE(equal(load_model(dir / "m.onnx"), small()));
  EXPECT_EQ(static_cast<int64_t>(fs::file_size(dir / "m.onnx")), serialized_size(small()));
  fs::remove_all(dir);
}

TEST(SortNodes, EdgesGoForwardAndUnusedInitializersGo) {
  Model model = small();
  std::swap(model.graph.nodes[0], model.graph.nodes[1]);
  model.graph.initializers.push_back({"unused", int64_tensor({1}, {1})});
  internal::sort_nodes(model.graph);
  internal::drop_unused_initializers(model.graph);
  EXPECT_EQ(model.graph.nodes[0].op_type, "Conv");
  EXPECT_EQ(model.graph.initializers.size(), 2u);
}

TEST(Tensor, EmptyOnesAreEqual) {
  EXPECT_TRUE(float_tensor({0}, {}).equals(float_tensor({0}, {})));
  EXPECT_FALSE(float_tensor({0}, {}).equals(float_tensor({0, 1}, {})));
  EXPECT_FALSE(float_tensor({1}, {1}).equals(float_tensor({1}, {2})));
}

TEST(Float16, KnownAnswersAndEveryHalfThereAndBack) {
  EXPECT_EQ(float_to_half(1.0f), 0x3c00);
  EXPECT_EQ(float_to_half(65504.0f), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_half(5.9604645e-8f), 0x0001);
  EXPECT_EQ(float_to_half(1.0f + 0x1p-11f), 0x3c00);  // half way: to even
  for (uint32_t h = 0; h < 0x10000; ++h)
    if (float f = half_to_float(static_cast<uint16_t>(h)); !std::isnan(f)) {
      EXPECT_EQ(float_to_half(f), h);
    }
}

TEST(DataTypes, NamesBothWays) {
  EXPECT_EQ(to_string(DataType::kInt8), "int8");
  EXPECT_EQ(parse_data_type("uint16"), DataType::kUint16);
  EXPECT_EQ(element_bits(DataType::kInt4), 4u);
  EXPECT_EQ(element_bits(static_cast<DataType>(26)), 2u);
  EXPECT_THROW(parse_data_type("int7"), Error);
}

}  // namespace
}  // namespace seqto
