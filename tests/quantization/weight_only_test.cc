#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "quantization/arithmetic/blocks.h"
#include "quantization/plan/weight_sites.h"
#include "seqto/error.h"
#include "seqto/quantize.h"

namespace seqto {
namespace {

using namespace internal;
using Dims = std::vector<int64_t>;

// Weights are given as shapes; their values differ, so that no two channels have one scale.
Model model_of(std::string_view text, const std::vector<std::pair<std::string, Dims>>& weights) {
  Model model = parse_model_text(text);
  for (const auto& [name, dims] : weights) {
    std::vector<float> values(static_cast<size_t>(Tensor(DataType::kFloat, dims, {}, {}).element_count()));
    for (size_t k = 0; k < values.size(); ++k) values[k] = 0.01f * (static_cast<float>(k % 97) - 40.0f);
    model.graph.initializers.push_back({name, float_tensor(dims, values)});
  }
  name_nodes(model);
  return infer_shapes(model);
}

std::vector<std::string> op_types(const Model& model) {
  std::vector<std::string> types;
  for (const Node& n : model.graph.nodes) types.push_back(n.op_type);
  return types;
}

Model write(const Model& model, Scheme scheme, const QuantizeOptions& options = {}) {
  Quantizer quantizer(model, {}, options);
  Model result = quantizer.quantize(uniform_plan(model, scheme));
  EXPECT_NO_THROW(check_model(result));
  return result;
}

Grouping grouping(const char* op, const Dims& dims, size_t input, std::vector<Attribute> attributes = {}) {
  Node node{"n", op, "", {"x", "x", "x"}, {"y"}, std::move(attributes), {}};
  node.inputs[input] = "w";
  Tensor weight = float_tensor(dims, std::vector<float>(64, 1.0f));
  auto sites = weight_sites(node, [&](const std::string& name) { return name == "w" ? &weight : nullptr; });
  EXPECT_EQ(sites.size(), 1u);
  return sites.at(0).grouping;
}

TEST(WeightSites, WhichElementsShareAScale) {
  EXPECT_EQ(grouping("Conv", {4, 4, 2, 2}, 1), (Grouping{1, 1, 4, 16}));
  EXPECT_EQ(grouping("ConvTranspose", {4, 4, 2, 2}, 1), (Grouping{1, 4, 4, 4}));
  EXPECT_EQ(grouping("ConvTranspose", {8, 2, 2, 2}, 1, {{"group", int64_t{2}}}), (Grouping{2, 4, 2, 4}));
  EXPECT_EQ(grouping("MatMul", {8, 8}, 1), (Grouping{1, 8, 8, 1}));
  EXPECT_EQ(grouping("MatMul", {2, 8, 4}, 1), (Grouping{2, 8, 4, 1}));
  EXPECT_EQ(grouping("MatMul", {2, 8, 4}, 0), (Grouping{1, 1, 16, 4}));
  EXPECT_EQ(grouping("Gemm", {8, 8}, 1, {{"transB", int64_t{1}}}), (Grouping{1, 1, 8, 8}));
  EXPECT_EQ(grouping("Gather", {16, 4}, 0), (Grouping{1, 1, 16, 4}));
  EXPECT_EQ(grouping("Gather", {4, 16}, 0, {{"axis", int64_t{1}}}), (Grouping{1, 4, 16, 1}));
  EXPECT_EQ(grouping("LSTM", {1, 16, 4}, 2), (Grouping{1, 1, 16, 4}));
}

TEST(Blocks, CutAlongTheSumAndPadded) {
  Cut even = cut_into_blocks({1, 8, 3, 1}, 4);
  EXPECT_EQ(even.blocks, (Grouping{2, 4, 3, 1}));
  EXPECT_FALSE(even.is_padded());
  Cut rest = cut_into_blocks({1, 1, 2, 5}, 4);  // two blocks, of which 3 and 3 waste least
  EXPECT_EQ(rest.blocks, (Grouping{1, 1, 4, 3}));
  EXPECT_EQ(rest.padded, (Grouping{1, 1, 2, 6}));
  Tensor padded = pad(float_tensor({2, 5}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}), rest);
  auto v = padded.values<float>();
  EXPECT_EQ(std::vector<float>(v.begin(), v.end()), (std::vector<float>{1, 2, 3, 4, 5, 0, 6, 7, 8, 9, 10, 0}));
  EXPECT_EQ(cut_into_blocks({1, 8, 3, 1}, 8).blocks, (Grouping{1, 8, 3, 1}));  // one block is the channel
}

TEST(Blocks, ScalesBroadcastWhereGroupsFollowTheDims) {
  EXPECT_EQ(scale_dims({4, 3, 2, 2}, {1, 1, 4, 12}), (Dims{4, 1, 1, 1}));
  EXPECT_EQ(scale_dims({2, 8, 4}, {2, 8, 4, 1}), (Dims{2, 1, 4}));
  EXPECT_EQ(scale_dims({4, 3, 2}, {1, 4, 3, 2}), (Dims{1, 3, 1}));
  EXPECT_EQ(scale_dims({4, 3, 2}, {2, 2, 3, 2}), std::nullopt);  // groups inside the first dim
}

Model conv() {
  return model_of(R"(<ir_version: 8, opset_import: ["" : 17]>
                     g (float[1,16,4,4] x) => (float[1,32,4,4] y) { y = Conv(x, w, b) })",
                  {{"w", {32, 16, 1, 1}}, {"b", {32}}});
}

TEST(Int8Weights, CastAndMulAlone) {
  Model model = conv();
  Model result = write(model, Scheme::kInt8Weights);
  EXPECT_EQ(op_types(result), (std::vector<std::string>{"Cast", "Mul", "Conv"}));
  EXPECT_EQ(result.graph.initializer("w"), nullptr);
  EXPECT_EQ(result.graph.initializer("w_quantized")->type(), DataType::kInt8);
  EXPECT_EQ(result.graph.initializer("w_scale")->dims(), (Dims{32, 1, 1, 1}));
  EXPECT_EQ(result.graph.nodes.back().name, model.graph.nodes[0].name);
  EXPECT_NE(result.graph.initializer("b"), nullptr);
}

TEST(Int8Weights, AsymmetricHasAZeroPoint) {
  Model model = conv();
  QuantizeOptions options;
  options.weight_only.int8_symmetric = false;
  Model result = write(model, Scheme::kInt8Weights, options);
  EXPECT_EQ(op_types(result), (std::vector<std::string>{"Cast", "Cast", "Sub", "Mul", "Conv"}));
  EXPECT_EQ(result.graph.initializer("w_quantized")->type(), DataType::kUint8);
}

TEST(Int8Weights, SharedWeightIsStoredOnce) {
  Model model = model_of(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[4,32] x) => (float[4,32] y) {
      a = MatMul(x, w)
      b = MatMul(a, w)
      y = MatMul(b, w)
    })",
                         {{"w", {32, 32}}});
  Quantizer quantizer(model, {}, {});
  Plan plan = uniform_plan(model, Scheme::kInt8Weights);
  Model result = quantizer.quantize(plan);
  EXPECT_EQ(op_types(result), (std::vector<std::string>{"Cast", "Mul", "MatMul", "MatMul", "MatMul"}));
  for (size_t i : {2, 3, 4}) EXPECT_EQ(result.graph.nodes[i].inputs[1], "w_dequantized");
  plan.schemes.erase("node_2");  // needs the float weight: codes beside it would make the file larger
  result = quantizer.quantize(plan);
  EXPECT_EQ(op_types(result), (std::vector<std::string>{"MatMul", "MatMul", "MatMul"}));
  EXPECT_EQ(quantizer.notes().size(), 1u);
}

TEST(Int8Weights, SharedWithAStaticLayerEachHasItsOwn) {
  Model model = model_of(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[4,32] x) => (float[4,32] y) {
      a = MatMul(x, w)
      y = MatMul(a, w)
    })",
                         {{"w", {32, 32}}});
  Quantizer quantizer(model, {{"x", {-1, 1}}, {"a", {-9, 9}}, {"y", {-99, 99}}}, {});
  for (Scheme scheme : {Scheme::kInt8Weights, Scheme::kInt4Weights, Scheme::kFloat16}) {
    Model result = quantizer.quantize(Plan{{{"node_0", Scheme::kInt8}, {"node_1", scheme}}});
    EXPECT_NO_THROW(check_model(result));
    EXPECT_TRUE(quantizer.notes().empty());
    EXPECT_EQ(result.graph.initializer("w"), nullptr);
    for (const Node& n : result.graph.nodes) {
      if (n.name == "node_1") {
        EXPECT_NE(n.inputs[1], "w_DequantizeLinear_Output") << to_string(scheme);
      }
    }
  }
}

TEST(Int8Weights, WhatWouldNotShrinkStaysAndIsSaid) {
  Model model = model_of(R"(
    <ir_version: 8, opset_import: ["" : 17]> g (float[1,2] x) => (float[1,2] y) { y = MatMul(x, w) })",
                         {{"w", {2, 2}}});
  Quantizer quantizer(model, {}, {});
  EXPECT_EQ(op_types(quantizer.quantize(uniform_plan(model, Scheme::kInt8Weights))), op_types(model));
  ASSERT_EQ(quantizer.notes().size(), 1u);
  EXPECT_NE(quantizer.notes()[0].find("not make the file smaller"), std::string::npos);
}

// --- float16

Model two_layers() {
  return model_of(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[4,32] x) => (float[4,32] y) {
      a = MatMul(x, w)
      r = Relu(a)
      y = MatMul(r, v)
    })",
                  {{"w", {32, 32}}, {"v", {32, 32}}});
}

Plan matmuls(Scheme scheme) { return Plan{{{"node_0", scheme}, {"node_2", scheme}}}; }

TEST(Int4Weights, EightBitsOfALayerAreEightInEveryFormat) {
  const Model model = model_of(R"(<ir_version: 10, opset_import: ["" : 21]>
g (float[2,64] x) => (float[2,64] y) { [m] y = MatMul(x, w) })",
                               {{"w", {64, 64}}});
  Plan plan = uniform_plan(model, Scheme::kInt4Weights);
  plan.options["m"].bits = 8;
  for (Int4Format format : {Int4Format::kMatMulNBits, Int4Format::kQdq, Int4Format::kFolded}) {
    QuantizeOptions options;
    options.weight_only.int4_format = format;
    const Model written = Quantizer(model, {}, options).quantize(plan);
    const auto holds_codes = [](const Initializer& i) { return std::ssize(i.tensor.bytes()) == 64 * 64; };
    EXPECT_TRUE(std::ranges::any_of(written.graph.initializers, holds_codes)) << to_string(format);
  }
}

TEST(Int4Weights, FourBitsInsteadOfTwoAreSaid) {
  const Model model = model_of(R"(<ir_version: 10, opset_import: ["" : 21]>
g (float[1,32,4,4] x) => (float[1,64,4,64] y) { [c] a = Conv(x, v) [m] b = MatMul(a, w) [n] y = MatMul(b, u) })",
                               {{"v", {64, 32, 1, 1}}, {"w", {4, 64}}, {"u", {64, 64}}});
  QuantizeOptions options;
  options.weight_only.bits = 2;
  Quantizer quantizer(model, {}, options);
  quantizer.quantize(uniform_plan(model, Scheme::kInt4Weights));
  const std::string said = fmt::format("{}", fmt::join(quantizer.notes(), "; "));
  EXPECT_NE(said.find("1 weight is in 4 bits instead of 2, which MatMul and Gemm alone take"), std::string::npos)
      << said;
}

TEST(Float16, WeightsAreStoredAndComputationIsFloat) {
  Model result = write(two_layers(), Scheme::kFloat16);
  EXPECT_EQ(op_types(result), (std::vector<std::string>{"Cast", "Cast", "MatMul", "Relu", "MatMul"}));
  EXPECT_EQ(result.graph.initializer("w_float16")->type(), DataType::kFloat16);
  EXPECT_EQ(result.graph.initializer("w"), nullptr);
}

TEST(Float16, CastsOnlyAtTheBorder) {
  Model model = two_layers();
  QuantizeOptions options;
  options.float16.compute = true;
  Quantizer quantizer(model, {}, options);
  // Relu joins its neighbours, although the plan does not name it.
  Model result = quantizer.quantize(matmuls(Scheme::kFloat16));
  EXPECT_NO_THROW(check_model(result));
  EXPECT_EQ(op_types(result), (std::vector<std::string>{"Cast", "MatMul", "Relu", "MatMul", "Cast"}));
  EXPECT_EQ(result.graph.outputs[0].type, DataType::kFloat);
  // Behind the last layer it would not save a Cast, and stays.
  Model first = quantizer.quantize(Plan{{{"node_0", Scheme::kFloat16}}});
  EXPECT_EQ(op_types(first), (std::vector<std::string>{"Cast", "MatMul", "Cast", "Relu", "MatMul"}));
}

TEST(Float16, InputsAndOutputsOnDemand) {
  Model model = two_layers();
  QuantizeOptions options;
  options.float16.compute = true;
  options.float16.keep_io_types = false;
  Model result = write(model, Scheme::kFloat16, options);
  EXPECT_EQ(op_types(result), (std::vector<std::string>{"MatMul", "Relu", "MatMul"}));
  EXPECT_EQ(result.graph.inputs[0].type, DataType::kFloat16);
  EXPECT_EQ(result.graph.outputs[0].type, DataType::kFloat16);
  EXPECT_EQ(result.graph.inputs[0].name, "x");
  EXPECT_EQ(result.graph.outputs[0].name, "y");
}

TEST(Float16, BlockedTypesStayFloatAndItIsSaid) {
  Model model = two_layers();
  QuantizeOptions options;
  options.float16.compute = true;
  options.float16.op_block_list = {"Relu"};
  Quantizer quantizer(model, {}, options);
  Model result = quantizer.quantize(uniform_plan(model, Scheme::kFloat16));
  EXPECT_NO_THROW(check_model(result));
  EXPECT_EQ(op_types(result), (std::vector<std::string>{"Cast", "MatMul", "Cast", "Relu", "Cast", "MatMul", "Cast"}));
  ASSERT_EQ(quantizer.notes().size(), 1u);
  EXPECT_NE(quantizer.notes()[0].find("Relu is in the block list"), std::string::npos);
}

TEST(Float16, WhatASubgraphReadsStaysFloat) {
  Model model = model_of(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[4,32] x, bool c) => (float[4,32] y) {
      a = MatMul(x, w)
      y = If (c) <then_branch = t () => (float[4,32] p) { p = Relu(a) },
                  else_branch = e () => (float[4,32] q) { q = Neg(a) }>
    })",
                         {{"w", {32, 32}}});
  QuantizeOptions options;
  options.float16.compute = true;
  Model result = write(model, Scheme::kFloat16, options);
  EXPECT_EQ(op_types(result), (std::vector<std::string>{"Cast", "MatMul", "Cast", "If"}));
  EXPECT_EQ(result.graph.nodes[2].outputs[0], "a");
}

TEST(Float16, ConstantsBeyondTheRangeAreSaidOrRefused) {
  Model model = two_layers();
  std::vector<float> values(32 * 32, 1.0f);
  values[5] = -1e6f;
  model.graph.initializers[0].tensor = float_tensor({32, 32}, values);
  Quantizer quantizer(model, {}, {});
  Model result = quantizer.quantize(matmuls(Scheme::kFloat16));
  EXPECT_EQ(element(*result.graph.initializer("w_float16"), 5), -65504.0);
  ASSERT_EQ(quantizer.notes().size(), 1u);
  EXPECT_NE(quantizer.notes()[0].find("1 of 1024 values of constant 'w'"), std::string::npos);
  QuantizeOptions options;
  options.float16.strict = true;
  Quantizer strict(model, {}, options);
  EXPECT_THROW(strict.quantize(matmuls(Scheme::kFloat16)), Error);
}

TEST(Layers, SayWhichSchemesAreOpenToThem) {
  Model model = conv();
  auto schemes = layers(model).at(0).schemes;
  for (Scheme s : {Scheme::kFloat32, Scheme::kFloat16, Scheme::kInt8, Scheme::kInt8Weights, Scheme::kInt4Weights})
    EXPECT_NE(std::find(schemes.begin(), schemes.end(), s), schemes.end()) << to_string(s);
}

}  // namespace
}  // namespace seqto
