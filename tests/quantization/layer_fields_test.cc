// Fields of single layers' schemes: given to all layers they are the options; given to one they change that one.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "seqto/error.h"
#include "seqto/improve.h"
#include "seqto/quantize.h"

namespace seqto {
namespace {

std::vector<float> numbers(size_t count, float seed) {
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i) values.push_back(std::sin(seed + 1.7f * static_cast<float>(i)) * (1 + seed));
  return values;
}

// Two convolutions with what the runtime fuses, a product, a Gemm, an elementwise constant.
Model network(int64_t opset = 21) {
  std::string head = "<ir_version: 10, opset_import: [\"\" : " + std::to_string(opset) + "]> ";
  Model model = parse_model_text(head + R"(g (float[1,2,4,4] x) => (float[1,3] y) {
      [conv_a] a = Conv<pads = [1,1,1,1]>(x, wa, ba)
      [relu_a] ra = Relu(a)
      [conv_b] b = Conv<group = 4>(ra, wb)
      [scale] s = Mul(b, factor)
      [pool] p = GlobalAveragePool(s)
      [flat] f = Flatten(p)
      [matmul] m = MatMul(f, wm)
      [gemm] y = Gemm<transB = 1>(m, wg, bg)
    })");
  auto add = [&](const char* name, std::vector<int64_t> dims, float seed) {
    size_t count = 1;
    for (int64_t d : dims) count *= static_cast<size_t>(d);
    model.graph.initializers.push_back({name, float_tensor(std::move(dims), numbers(count, seed))});
  };
  add("wa", {4, 2, 3, 3}, 0.1f), add("ba", {4}, 0.2f), add("wb", {4, 1, 1, 1}, 0.3f), add("factor", {1, 4, 1, 1}, 0.4f);
  add("wm", {4, 64}, 0.5f), add("wg", {3, 64}, 0.6f), add("bg", {3}, 0.7f);
  return infer_shapes(model);
}

Ranges ranges_of(float wide) {
  Ranges ranges;
  float step = 1;
  for (const char* name : {"x", "a", "b", "s", "p", "f", "m", "y"}) ranges[name] = {-wide * step, wide * ++step};
  ranges["ra"] = {0, wide * 2};
  return ranges;
}

Plan plan_with(const Model& model, Scheme scheme, const LayerOptions& fields) {
  Plan plan = uniform_plan(model, scheme);
  for (const auto& [layer, s] : plan.schemes) plan.options[layer] = fields;
  return plan;
}

struct Case {
  const char* fields;
  std::function<void(QuantizeOptions&)> options;
};

const std::vector<Case>& weight_cases() {
  static const std::vector<Case> kCases{
      {R"({"per_channel": true})", [](auto& o) { o.per_channel = true; }},
      {R"({"reduce_range": true})", [](auto& o) { o.reduce_range = true; }},
      {R"({"symmetric_weights": false})", [](auto& o) { o.symmetric_weights = false; }},
      {R"({"per_channel": true, "symmetric_weights": false})",
       [](auto& o) { o.per_channel = true, o.symmetric_weights = false; }},
      {R"({"weight_clipping": "mse", "per_channel": true})",
       [](auto& o) { o.weight_clipping = WeightClipping::kMse, o.per_channel = true; }}};
  return kCases;
}

void expect_as_options(const Model& model, Scheme scheme, const Case& c, QuantizeOptions base = {}) {
  SCOPED_TRACE(c.fields);
  QuantizeOptions options = base;
  c.options(options);
  Quantizer wanted(model, ranges_of(1), options), given(model, ranges_of(1), base);
  EXPECT_TRUE(equal(given.quantize(plan_with(model, scheme, layer_options_from_json(c.fields))),
                    wanted.quantize(uniform_plan(model, scheme))));
}

TEST(LayerFields, OnAllStaticLayersTheyAreTheOptions) {
  Model model = network();
  std::vector<Case> cases = weight_cases();
  cases.push_back({R"({"activation_type": "uint8"})", [](auto& o) { o.activation_type = DataType::kUint8; }});
  cases.push_back({R"({"activation_type": "uint8", "weight_type": "uint8"})",
                   [](auto& o) { o.activation_type = o.weight_type = DataType::kUint8; }});
  cases.push_back({R"({"activation_type": "int16"})", [](auto& o) { o.activation_type = DataType::kInt16; }});
  cases.push_back({R"({"symmetric_activations": true})", [](auto& o) { o.symmetric_activations = true; }});
  cases.push_back({R"({"weight_type": "int4", "activation_type": "uint16", "per_channel": true})", [](auto& o) {
                     o.weight_type = DataType::kInt4, o.activation_type = DataType::kUint16, o.per_channel = true;
                   }});
  cases.push_back({R"({"block_size": 16, "activation_type": "int16"})",
                   [](auto& o) { o.block_size = 16, o.activation_type = DataType::kInt16; }});
  for (const Case& c : cases) expect_as_options(model, Scheme::kInt8, c);
}

TEST(LayerFields, TheyTakeBackWhatTheOptionsSay) {
  Model model = network();
  QuantizeOptions base;
  base.per_channel = base.reduce_range = base.symmetric_activations = true;
  base.activation_type = DataType::kUint8;
  base.weight_clipping = WeightClipping::kMse;
  expect_as_options(model, Scheme::kInt8,
                    {R"({"per_channel": false, "reduce_range": false, "symmetric_activations": false,
                         "activation_type": "int8", "weight_clipping": "none"})",
                     [](auto& o) { o = {}, o.keep_removable_activations = true; }},
                    [&] {
                      // Whether a Relu may go is one rule for the whole model.
                      QuantizeOptions kept = base;
                      kept.keep_removable_activations = true;
                      return kept;
                    }());
}

TEST(LayerFields, OnAllLayersOfOtherFormsToo) {
  Model model = network();
  QuantizeOptions operators;
  operators.format = QuantFormat::kQoperator;
  for (const Case& c : weight_cases()) {
    expect_as_options(model, Scheme::kInt8, c, operators);
    if (std::string_view(c.fields).find("mse") == std::string_view::npos)
      expect_as_options(model, Scheme::kInt8Dynamic, c);
  }
  expect_as_options(model, Scheme::kInt8Weights,
                    {R"({"weight_type": "uint8"})", [](auto& o) { o.weight_only.int8_symmetric = false; }});
  expect_as_options(model, Scheme::kInt8Weights,
                    {R"({"block_size": 32})", [](auto& o) { o.weight_only.int8_block_size = 32; }});
  for (Int4Format format : {Int4Format::kMatMulNBits, Int4Format::kQdq, Int4Format::kFolded}) {
    QuantizeOptions base;
    base.weight_only.int4_format = format;
    expect_as_options(model, Scheme::kInt4Weights,
                      {R"({"weight_type": "int4"})", [](auto& o) { o.weight_only.int4_symmetric = true; }}, base);
    expect_as_options(model, Scheme::kInt4Weights,
                      {R"({"block_size": 16})", [](auto& o) { o.weight_only.int4_block_size = 16; }}, base);
  }
  expect_as_options(model, Scheme::kInt4Weights, {R"({"bits": 2})", [](auto& o) { o.weight_only.bits = 2; }});
  expect_as_options(model, Scheme::kInt4Weights,
                    {R"({"accuracy_level": 4})", [](auto& o) { o.weight_only.accuracy_level = 4; }});
}

// One after the other from one Quantizer, and so from one cache: nothing of a candidate stays behind.
TEST(LayerFields, CandidatesOfOneQuantizerDoNotMix) {
  Model model = network();
  Quantizer shared(model, ranges_of(1), {});
  for (const char* fields :
       {"{}", R"({"bits": 2, "block_size": 16})", R"({"block_size": 16})", R"({"bits": 8})", "{}"}) {
    SCOPED_TRACE(fields);
    Plan plan = plan_with(model, Scheme::kInt4Weights, layer_options_from_json(fields));
    EXPECT_TRUE(equal(shared.quantize(plan), Quantizer(model, ranges_of(1), {}).quantize(plan)));
  }
  for (const char* fields : {"{}", R"({"per_channel": true})", R"({"weight_clipping": "mse"})", "{}"}) {
    SCOPED_TRACE(fields);
    Plan plan = plan_with(model, Scheme::kInt8, layer_options_from_json(fields));
    EXPECT_TRUE(equal(shared.quantize(plan), Quantizer(model, ranges_of(1), {}).quantize(plan)));
  }
}

int64_t scales(const Model& model, const std::string& name) {
  const Tensor* scale = model.graph.initializer(name + "_scale");
  return scale ? scale->element_count() : 0;
}
DataType type_of(const Model& model, const std::string& name) {
  const Tensor* zero_point = model.graph.initializer(name + "_zero_point");
  return zero_point ? zero_point->type() : DataType::kUndefined;
}

TEST(LayerFields, OfOneLayerChangeItsTensorsAlone) {
  Model model = network();
  Plan plan = uniform_plan(model, Scheme::kInt8);
  Quantizer quantizer(model, ranges_of(1), {});
  plan.options["conv_b"] = layer_options_from_json(R"({"per_channel": true, "activation_type": "uint8"})");
  Model made = quantizer.quantize(plan);
  check_model(made);
  EXPECT_EQ(scales(made, "wb"), 4);
  EXPECT_EQ(scales(made, "wa"), 1);
  EXPECT_EQ(type_of(made, "ra"), DataType::kUint8);
  EXPECT_EQ(type_of(made, "b"), DataType::kUint8);
  EXPECT_EQ(type_of(made, "x"), DataType::kInt8);
  EXPECT_EQ(type_of(made, "s"), DataType::kInt8);
  // More bits go before, whoever asks; then who reads.
  plan.options["scale"] = layer_options_from_json(R"({"activation_type": "int16"})");
  made = quantizer.quantize(plan);
  EXPECT_EQ(type_of(made, "b"), DataType::kInt16);
  EXPECT_EQ(type_of(made, "factor"), DataType::kInt16);
  plan.options["scale"] = layer_options_from_json(R"({"activation_type": "int8"})");
  EXPECT_EQ(type_of(quantizer.quantize(plan), "b"), DataType::kInt8);
  plan.options.erase("scale");
  plan.schemes["scale"] = Scheme::kInt8wInt16a;
  EXPECT_EQ(type_of(quantizer.quantize(plan), "b"), DataType::kInt16);
}

TEST(LayerFields, FewerBitsThanANeighboursAreNotTaken) {
  Model model = network();
  QuantizeOptions options;
  options.activation_type = DataType::kInt16;
  Plan plan = uniform_plan(model, Scheme::kInt8);
  plan.options["conv_a"] = layer_options_from_json(R"({"activation_type": "int8"})");
  Model made = Quantizer(model, ranges_of(1), options).quantize(plan);
  EXPECT_EQ(type_of(made, "x"), DataType::kInt8);    // nobody else reads it
  EXPECT_EQ(type_of(made, "ra"), DataType::kInt16);  // conv_b does
}

TEST(LayerFields, MethodsNameRanges) {
  Model model = network();
  Plan plan = uniform_plan(model, Scheme::kInt8);
  plan.options["conv_b"].method = "percentile";
  Quantizer quantizer(model, ranges_of(1), {});
  EXPECT_THROW(quantizer.quantize(plan), Error);
  quantizer.add_ranges("percentile", ranges_of(0.5));
  Model made = quantizer.quantize(plan), plain = quantizer.quantize(uniform_plan(model, Scheme::kInt8));
  auto scale = [](const Model& m, const char* name) {
    return element(*m.graph.initializer(std::string(name) + "_scale"), 0);
  };
  EXPECT_FLOAT_EQ(static_cast<float>(scale(made, "b") * 2), static_cast<float>(scale(plain, "b")));
  EXPECT_FLOAT_EQ(static_cast<float>(scale(made, "ra") * 2), static_cast<float>(scale(plain, "ra")));
  EXPECT_EQ(scale(made, "x"), scale(plain, "x"));
  EXPECT_EQ(scale(made, "s"), scale(plain, "s"));
  // The same through one set of ranges.
  std::map<std::string, Ranges> named{{"percentile", ranges_of(0.5)}};
  Ranges resolved = ranges_under(plan, model, ranges_of(1), named);
  plan.options.clear();
  EXPECT_TRUE(equal(Quantizer(model, resolved, {}).quantize(plan), made));
  EXPECT_EQ(calibration_named("percentile:99.5", {}).percentile, 99.5);
  EXPECT_EQ(calibration_named("mse", {}).method, CalibrationMethod::kMse);
  EXPECT_THROW(calibration_named("percentile:many", {}), Error);
}

TEST(LayerFields, SharedWeightsTakeTheFirstLayersWord) {
  Model model = infer_shapes(parse_model_text(R"(<ir_version: 10, opset_import: ["" : 21]>
g (float[1,32] x) => (float[1,32] y) { [one] a = MatMul(x, w)
 [two] y = MatMul(a, w) })"));
  model.graph.initializers.push_back({"w", float_tensor({32, 32}, numbers(1024, 0.1f))});
  for (Scheme scheme : {Scheme::kInt8, Scheme::kInt8Weights, Scheme::kInt4Weights, Scheme::kInt8Dynamic}) {
    SCOPED_TRACE(to_string(scheme));
    Plan plan = uniform_plan(model, scheme);
    bool blocks = scheme == Scheme::kInt8Weights || scheme == Scheme::kInt4Weights;
    plan.options["two"] = layer_options_from_json(blocks ? R"({"block_size": 16})" : R"({"per_channel": true})");
    check_model(Quantizer(model, {{"x", {-1, 1}}, {"a", {-1, 1}}, {"y", {-1, 1}}}, {}).quantize(plan));
  }
}

std::string refusal(Scheme scheme, const std::string& fields, const QuantizeOptions& options = {}, int64_t opset = 21) {
  Model model = network(opset);
  try {
    Quantizer(model, ranges_of(1), options).quantize(plan_with(model, scheme, layer_options_from_json(fields)));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(LayerFields, WhatASchemeHasNotIsRefused) {
  const std::string missing = "does not have";
  for (auto [scheme, fields] :
       std::vector<std::pair<Scheme, const char*>>{{Scheme::kFloat16, R"({"weight_type": "int8"})"},
                                                   {Scheme::kInt8wInt16a, R"({"activation_type": "int8"})"},
                                                   {Scheme::kInt8Dynamic, R"({"method": "mse"})"},
                                                   {Scheme::kInt8Dynamic, R"({"rounding": "learned"})"},
                                                   {Scheme::kInt8Weights, R"({"per_channel": true})"},
                                                   {Scheme::kInt8Weights, R"({"bits": 4})"},
                                                   {Scheme::kInt8Weights, R"({"accuracy_level": 4})"},
                                                   {Scheme::kInt8, R"({"bits": 4})"}})
    EXPECT_NE(refusal(scheme, fields).find(missing), std::string::npos) << to_string(scheme) << fields;
  EXPECT_NE(refusal(Scheme::kInt8Dynamic, R"({"weight_type": "int16"})").find("int8 or uint8"), std::string::npos);
  EXPECT_NE(refusal(Scheme::kInt4Weights, R"({"weight_type": "int8"})").find("int4 or uint4"), std::string::npos);
  EXPECT_NE(refusal(Scheme::kInt4Weights, R"({"bits": 3})").find("2, 4 or 8"), std::string::npos);
  EXPECT_NE(refusal(Scheme::kInt4Weights, R"({"accuracy_level": 2})").find("0, 1 or 4"), std::string::npos);
  EXPECT_NE(refusal(Scheme::kInt8, R"({"weight_type": "uint8"})").find("no runtime has kernels"), std::string::npos);
  EXPECT_NE(refusal(Scheme::kInt8, R"({"block_size": 16})", {}, 17).find("21 or newer"), std::string::npos);
  EXPECT_NE(refusal(Scheme::kInt8, R"({"per_channel": true})", {}, 12).find("13 or newer"), std::string::npos);
  QuantizeOptions operators;
  operators.format = QuantFormat::kQoperator;
  EXPECT_NE(refusal(Scheme::kInt8, R"({"activation_type": "uint8"})", operators).find("QOperator"), std::string::npos);
  // And the form that they need can be had.
  Plan plan = plan_with(network(12), Scheme::kInt8, layer_options_from_json(R"({"per_channel": true})"));
  EXPECT_EQ(tunable_form(network(12), {}, plan).model.opset(), 13);
  EXPECT_EQ(tunable_form(network(12), {}, uniform_plan(network(12), Scheme::kInt8)).model.opset(), 12);
}

TEST(LayerFields, PlansGoThroughJson) {
  Plan plan;
  plan.schemes = {{"a", Scheme::kInt8}, {"b", Scheme::kInt8Weights}, {"c", Scheme::kFloat32}};
  const std::string plain =
      "{\n \"schema_version\": 1,\n \"schemes\": {\n  \"a\": \"int8\",\n"
      "  \"b\": \"int8_weights\",\n  \"c\": \"float32\"\n }\n}";
  EXPECT_EQ(plan_to_json(plan), plain);
  const std::string hash = plan.hash();
  EXPECT_EQ(hash, "96e58a870bb141f2");
  plan.options["a"] = {};
  EXPECT_EQ(plan.hash(), hash);
  EXPECT_EQ(plan_to_json(plan), plain);
  plan.options["a"] = layer_options_from_json(
      R"({"weight_type": "int8", "symmetric_weights": true, "per_channel": true, "reduce_range": false,
          "weight_clipping": "mse", "block_size": 0, "bits": 4, "accuracy_level": 1, "activation_type": "uint8",
          "symmetric_activations": false, "method": "percentile:99.9", "rounding": "nearest",
          "bias_correction": true})");
  EXPECT_NE(plan.hash(), hash);
  EXPECT_EQ(plan_from_json(plan_to_json(plan)), plan);
  EXPECT_EQ(plan_from_json(plan_to_json(plan)).hash(), plan.hash());
  EXPECT_FALSE(*plan.options["a"].learned_rounding);
  for (const char* fields : {R"({"per_chanel": true})", R"({"per_channel": "yes"})", R"({"weight_type": "int7"})",
                             R"({"rounding": "up"})", R"({"bits": null})", "[]"})
    EXPECT_THROW(layer_options_from_json(fields), Error) << fields;
  EXPECT_THROW(plan_from_json(R"({"schemes": {"a": {"per_channel": true}}})"), Error);
  EXPECT_THROW(plan_from_json(R"({"schemes": {"a": 1}})"), Error);
}

TEST(LayerFields, CorrectionsComeWhereTheyAreWanted) {
  Model model = network();
  Quantizer quantizer(model, ranges_of(1), {});
  const Plan uniform = uniform_plan(model, Scheme::kInt8);
  Plan plan = uniform;
  Model plain = quantizer.quantize(uniform);
  Corrections found;
  found.shifts = {{"conv_a", {1, 1, 1, 1}}, {"gemm", {1, 1, 1}}};
  ImproveOptions study;
  study.bias_correction = BiasCorrection::kFast;
  auto bias = [](const Model& m, const char* name) { return element(*m.graph.initializer(name), 0); };
  auto made = [&](const ImproveOptions& otherwise) {
    return quantizer.quantize(uniform, {wanted(found, plan, otherwise)});
  };
  Model all = made(study);
  EXPECT_NE(bias(all, "ba_quantized"), bias(plain, "ba_quantized"));
  EXPECT_NE(bias(all, "bg_quantized"), bias(plain, "bg_quantized"));
  plan.options["gemm"].bias_correction = false;
  EXPECT_EQ(bias(made(study), "bg_quantized"), bias(plain, "bg_quantized"));
  EXPECT_EQ(bias(made(study), "ba_quantized"), bias(all, "ba_quantized"));
  plan.options["gemm"].bias_correction = true;
  EXPECT_EQ(bias(made({}), "bg_quantized"), bias(all, "bg_quantized"));
  EXPECT_EQ(bias(made({}), "ba_quantized"), bias(plain, "ba_quantized"));
}

}  // namespace
}  // namespace seqto
