#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "base/files.h"
#include "quantization/arithmetic/arithmetic.h"
#include "seqto/error.h"
#include "seqto/explain.h"
#include "seqto/quantize.h"

namespace seqto {
namespace {

using namespace internal;

TEST(QuantLimits, Table) {
  auto pair = [](QuantLimits l) { return std::pair{l.lowest, l.highest}; };
  EXPECT_EQ(pair(quant_limits(DataType::kInt8)), std::pair(-128, 127));
  EXPECT_EQ(pair(quant_limits(DataType::kInt8, false, true)), std::pair(-127, 127));
  EXPECT_EQ(pair(quant_limits(DataType::kInt8, true, true)), std::pair(-64, 64));  // reduced goes before symmetric
  EXPECT_EQ(pair(quant_limits(DataType::kUint8, true)), std::pair(0, 127));
  EXPECT_EQ(pair(quant_limits(DataType::kInt4, false, true)), std::pair(-8, 7));
}

TEST(ScaleZeroPoint, KnownAnswers) {
  auto uint8 = quant_limits(DataType::kUint8);
  ScaleZeroPoint p = scale_zero_point(-1.0f, 3.0f, {uint8, false});
  EXPECT_EQ(p.scale, static_cast<float>(4.0 / 255.0));
  EXPECT_EQ(p.zero_point, 64);                                            // rint(63.75)
  EXPECT_EQ(scale_zero_point(2.0f, 3.0f, {uint8, false}).zero_point, 0);  // 0 is made part of the range
  EXPECT_EQ(scale_zero_point(-1.0f, 1.0f, {uint8, true}).zero_point, 128);
  EXPECT_EQ(scale_zero_point(0.0f, 0.0f, {uint8, true}).zero_point, 0);  // empty range: scale 1, zero point 0
  EXPECT_EQ(scale_zero_point(0.0f, 0.0f, {uint8, true}).scale, 1.0f);
  EXPECT_EQ(scale_zero_point(0.0f, 0.0f, {uint8, false, 1.0}).scale, static_cast<float>(1.0 / 255.0));
}

TEST(Quantize, RoundsHalfToEvenAndSaturates) {
  Tensor values = float_tensor({7}, {0.5f, 1.5f, 2.5f, -0.5f, 1000.0f, -1000.0f, std::numeric_limits<float>::max()});
  Tensor q = quantize(values, {DataType::kInt8, {1.0f}, {0}, {}});
  auto v = q.values<int8_t>();
  EXPECT_EQ(std::vector<int>(v.begin(), v.end()), (std::vector<int>{0, 2, 2, 0, 127, -128, 127}));
}

TEST(Quantize, PerChannelOnAnyAxis) {
  Tensor values = float_tensor({2, 2}, {1, 10, -2, -20});
  QuantParams params = weight_params(values, {DataType::kInt8, true, false, {}, 1});
  EXPECT_EQ(params.scale, (std::vector<float>{static_cast<float>(4.0 / 254.0), static_cast<float>(40.0 / 254.0)}));
  auto q = quantize(values, params);
  auto v = q.values<int8_t>();
  EXPECT_EQ(std::vector<int>(v.begin(), v.end()), (std::vector<int>{64, 64, -127, -127}));
  auto back = dequantize(q, params);
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(back[i], values.values<float>()[i], params.scale[i % 2] / 2);
}

TEST(Quantize, AChannelOfZerosHasTheZeroPointOfTheOthers) {
  Tensor values = float_tensor({2, 2}, {1, -1, 0, 0});
  WeightRule rule{.type = DataType::kUint8, .symmetric = true, .reduce_range = false, .min_real_range = {}, .axis = 0};
  EXPECT_EQ(weight_params(values, rule).zero_point, (std::vector<int32_t>{128, 0}));
  rule.compat_onnxruntime = false;
  for (const WeightClipping clipping : {WeightClipping::kNone, WeightClipping::kMse}) {
    rule.clipping = clipping;
    const QuantParams params = weight_params(values, rule);
    EXPECT_EQ(params.zero_point, (std::vector<int32_t>{128, 128}));
    EXPECT_EQ(params.deviations, std::vector<std::string>{"D65"});
  }
}

TEST(ScaleZeroPoint, SmallScalesOfFloat16) {
  AffineRule rule{.limits = {-127, 127}, .symmetric = true, .float_type = DataType::kFloat16};
  const float largest = 127 * 0x1.4p-20f;
  EXPECT_EQ(scale_zero_point(0, largest, rule).scale, 1);
  rule.compat_onnxruntime = false;
  EXPECT_EQ(scale_zero_point(0, largest, rule).scale, 0x1.4p-20f);
  EXPECT_EQ(scale_zero_point(0, 127 * 0x1.4p-24f, rule).scale, 0x1p-23f) << "the next multiple: nothing is cut";
  EXPECT_EQ(scale_zero_point(0, 0x1p-24f, rule).scale, 0x1p-24f) << "the smallest value there is";
  EXPECT_EQ(scale_zero_point(0, 0, rule).scale, 1);
  EXPECT_EQ(scale_zero_point(0, 127, rule).scale, 1);
}

TEST(QuantizeBias, ScaleIsTheProduct) {
  std::vector<float> bias{1.0f, -1.0f}, weight_scale{0.5f, 0.25f};
  QuantizedBias q = quantize_bias(bias, 0.5f, weight_scale);
  EXPECT_EQ(q.scale, (std::vector<float>{0.25f, 0.125f}));
  EXPECT_EQ(q.values, (std::vector<int32_t>{4, -8}));
}

Model conv_relu() {
  Model model = parse_model_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,1,2,2] x) => (float[1,1,2,2] y) <float[1,1,1,1] w = {2}, float[1] b = {1}> {
      c = Conv(x, w, b)
      r = Relu(c)
      y = MaxPool<kernel_shape = [1,1]>(r)
    })");
  name_nodes(model);
  return infer_shapes(model);
}

const Ranges kRanges{{"x", {-1, 1}}, {"c", {-1, 3}}, {"r", {0, 3}}, {"y", {0, 3}}};

std::vector<std::string> op_types(const Model& model) {
  std::vector<std::string> types;
  for (const Node& n : model.graph.nodes) types.push_back(n.op_type);
  return types;
}

TEST(Quantizer, ReluDisappearsIntoTheRangeAndPoolSharesIt) {
  Quantizer quantizer(conv_relu(), kRanges, {});
  Model q = quantizer.quantize_excluding({});
  EXPECT_NO_THROW(check_model(q));
  auto types = op_types(q);
  EXPECT_EQ(std::count(types.begin(), types.end(), "Relu"), 0);
  EXPECT_EQ(std::count(types.begin(), types.end(), "QuantizeLinear"), 3);    // x, r, y
  EXPECT_EQ(std::count(types.begin(), types.end(), "DequantizeLinear"), 5);  // and w, b
  EXPECT_EQ(q.graph.initializer("y_scale"), nullptr);                        // y uses r's
  EXPECT_EQ(q.graph.initializer("w"), nullptr);
  EXPECT_TRUE(quantizer.deviations().empty());
}

TEST(Quantizer, SymmetricRangeKeepsRelu) {
  Ranges ranges = kRanges;
  ranges["r"] = {-3, 3};  // as a symmetric calibration gives it: 0 is not the lowest code any more
  Quantizer quantizer(conv_relu(), ranges, {});
  auto types = op_types(quantizer.quantize_excluding({}));
  EXPECT_EQ(std::count(types.begin(), types.end(), "Relu"), 1);
  EXPECT_EQ(quantizer.deviations(), std::vector<std::string>{"D2"});
}

TEST(Quantizer, EmptyPlanIsTheModel) {
  Model model = conv_relu();
  Quantizer quantizer(model, kRanges, {});
  EXPECT_TRUE(equal(quantizer.quantize({}), model));
  EXPECT_TRUE(equal(quantizer.quantize(uniform_plan(model, Scheme::kInt8)), quantizer.quantize_excluding({})));
}

TEST(Quantizer, CandidatesShareTheirWeights) {
  Quantizer quantizer(conv_relu(), kRanges, {});
  Model a = quantizer.quantize_excluding({}), b = quantizer.quantize_excluding({"node_2"});
  EXPECT_EQ(a.graph.initializer("w_quantized")->bytes().data(), b.graph.initializer("w_quantized")->bytes().data());
  EXPECT_FALSE(equal(a, b));
}

// The first Gemm's C has to become [2] for scales of its own; the second, which stays float, reads it as a matrix.
TEST(Quantizer, ARowThatIsSpreadKeepsItsShapeForOtherReaders) {
  Model model = parse_model_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,2] x) => (float[1,1] y) <float[2,2] w = {1, 2, 3, 4}, float[1,2] c = {5, 6}> {
      [first] h = Gemm<transB = 1>(x, w, c)
      [second] y = Gemm<transB = 1>(h, c)
    })");
  Quantizer quantizer(infer_shapes(model), {{"x", {-1, 1}}, {"h", {-9, 9}}, {"y", {-9, 9}}}, {.per_channel = true});
  Model q = quantizer.quantize_excluding({"second"});
  ASSERT_NE(q.graph.initializer("c"), nullptr);
  EXPECT_EQ(q.graph.initializer("c")->dims(), (std::vector<int64_t>{1, 2}));
  EXPECT_NO_THROW(check_model(q));
}

TEST(Quantizer, WhatItCannotDoIsAnError) {
  EXPECT_THROW(Quantizer(conv_relu(), {}, {}).quantize_excluding({}), Error);  // no ranges
  Quantizer no_kernels(conv_relu(), kRanges, {.activation_type = DataType::kInt8, .weight_type = DataType::kUint8});
  EXPECT_THROW(no_kernels.quantize_excluding({}), Error);
  EXPECT_NO_THROW(no_kernels.quantize_excluding({}, Scheme::kInt8Dynamic));  // whose activations are uint8 anyway
  Model old = conv_relu();
  old.opsets[0].version = 12;
  Quantizer by_channel(old, kRanges, {.per_channel = true});
  EXPECT_THROW(by_channel.quantize(uniform_plan(old, Scheme::kInt8)), Error);
  EXPECT_NO_THROW(by_channel.quantize(uniform_plan(old, Scheme::kInt8Dynamic)));  // not in pairs
  Model nothing =
      parse_model_text(R"(<ir_version: 8, opset_import: ["" : 17]> g (float[1] x) => (float[1] y) { y = Relu(x) })");
  EXPECT_THROW(require_quantizable(nothing), Error);
}

TEST(Plan, JsonAndHash) {
  Plan plan{{{"conv <1>", Scheme::kInt8}, {"fc", Scheme::kFloat32}}};
  EXPECT_EQ(plan_from_json(plan_to_json(plan)), plan);
  EXPECT_EQ(plan.hash().size(), 16u);
  EXPECT_EQ(plan.hash(), (Plan{{{"conv <1>", Scheme::kInt8}}}.hash()));  // float32 is what an absent layer is
  EXPECT_NE(plan.hash(), Plan{}.hash());
  EXPECT_THROW(plan_from_json("{}"), Error);
  EXPECT_THROW(plan_from_json(R"({"schemes": {"a": "int7"}})"), Error);
}

TEST(Layers, EachNodeOnceWithAReason) {
  Model model = conv_relu();
  model.graph.nodes[1].op_type = "Erf";
  auto all = layers(model);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].weight_bytes, 8);
  EXPECT_TRUE(all[0].quantizable);
  EXPECT_FALSE(all[1].quantizable);
  EXPECT_NE(all[1].reason.find("Erf"), std::string::npos);
}

TEST(Ranges, CacheRoundTrip) {
  auto path = std::filesystem::temp_directory_path() / "seqto_ranges_test.json";
  save_ranges({{"a", {-0.1f, 3e-20f}}}, path);
  Ranges read = load_ranges(path);
  EXPECT_EQ(read.at("a").lowest, -0.1f);
  EXPECT_EQ(read.at("a").highest, 3e-20f);
  std::filesystem::remove(path);
  EXPECT_THROW(load_ranges(path), Error);
  write_file_atomic(path, R"({"data": {"x": {"lowest": 5, "highest": -5}}})");
  EXPECT_THROW(load_ranges(path), Error) << "the wrong way around";
}

TEST(ExclusionOrder, TensorThenItsReaders) {
  Sensitivity s;
  s.activations = {{"r", 1, 1, 1}, {"c", 1, 1, 0.5}};
  s.weights = {{"w", 30}};
  EXPECT_EQ(exclusion_order(s, conv_relu()), (std::vector<std::string>{"r", "node_2", "c", "node_1", "w", "node_0"}));
}

}  // namespace
}  // namespace seqto
