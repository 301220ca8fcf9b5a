#include <gtest/gtest.h>

#include "seqto/error.h"
#include "seqto/recipe.h"

namespace seqto {
namespace {

Model network() {
  return quantizable_form(parse_model_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4] x) => (float[1,2] y) <float[4,2] w = {1,2,3,4,5,6,7,8}> {
      [product] y = MatMul(x, w)
    })"),
                          {})
      .model;
}

std::optional<Code> code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return {};
}

TEST(RecipeChoices, AMode) {
  const Model model = network();
  Recipe recipe;
  take_mode(recipe, model, "static", Scheme::kInt8Weights, true);
  EXPECT_EQ(recipe.everywhere, Scheme::kInt8);
  EXPECT_EQ(samples_for(recipe), SamplesFor::kRanges);
  recipe = {};
  take_mode(recipe, model, "dynamic", Scheme::kInt8Weights, true);
  EXPECT_EQ(recipe.rewritten_for, Scheme::kInt8Dynamic);
  EXPECT_EQ(recipe.quantize.activation_type, DataType::kUint8);
  EXPECT_EQ(samples_for(recipe), SamplesFor::kNothing);
  recipe = {};
  take_mode(recipe, model, "weights", Scheme::kInt4Weights, true);
  EXPECT_EQ(recipe.plan.schemes.at("product"), Scheme::kInt4Weights);
  recipe = {};
  take_mode(recipe, model, "float16", Scheme::kInt8Weights, true);
  EXPECT_EQ(recipe.plan.schemes.at("product"), Scheme::kFloat16);
  EXPECT_EQ(code_of([&] { take_mode(recipe, model, "int3", Scheme::kInt8Weights, true); }), Code::kUsage);
  const Model nothing = parse_model_text(
      R"(<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] y) { [relu] y = Relu(x) })");
  EXPECT_EQ(code_of([&] { take_mode(recipe, nothing, "weights", Scheme::kInt8Weights, true); }), Code::kInvalidInput);
}

Model with_constants(Model model, const std::vector<std::pair<std::string, std::vector<int64_t>>>& constants) {
  for (const auto& [name, dims] : constants) {
    const auto count = static_cast<size_t>(Tensor(DataType::kFloat, dims, {}, {}).element_count());
    model.graph.initializers.push_back({name, float_tensor(dims, std::vector<float>(count, 1.0f))});
  }
  return model;
}

// One note of the model in each of these modes, with these words.
void expect_note(const Model& model, std::initializer_list<const char*> modes, const char* words) {
  for (const char* mode : modes) {
    Recipe recipe;
    const auto notes = take_mode(recipe, model, mode, Scheme::kInt8Weights, true);
    ASSERT_EQ(notes.size(), 1u) << mode;
    EXPECT_NE(notes[0].find(words), std::string::npos) << notes[0];
  }
}

TEST(RecipeChoices, WeightsMadeOfConstantsAreTold) {
  const Model model = parse_model_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4] x) => (float[1,2] y) <float[4,2] v = {1,2,3,4,5,6,7,8}, float[4,2] w = {1,2,3,4,5,6,7,8}> {
      [norm] n = ReduceL2(v)
      [scaled] s = Div(v, n)
      [turned] t = Transpose(s)
      [first] a = MatMul(x, s)
      [second] b = MatMul(a, t)
      [third] y = MatMul(b, w)
    })");
  expect_note(model, {"dynamic", "weights"}, "the weights of 2 layers are computed from constants");
}

TEST(RecipeChoices, ConstantsOfSmallerOnesAreTold) {
  const Model model = infer_shapes(with_constants(parse_model_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,8] x) => (float[1,8] y) {
      [rows] r = ReduceMean<axes = [0]>(table)
      [wide] v = Add(r, r)
      [layer] a = MatMul(x, w)
      [sum] y = Add(a, v)
    })"),
                                                  {{"w", {8, 8}}, {"table", {64, 8}}}));
  expect_note(model, {"static", "dynamic", "weights"}, "`seqto prepare MODEL -o OUT` stores those instead");
}

TEST(RecipeChoices, ConstantsWithoutASchemeOfTheModeAreTold) {
  const auto notes = [](const std::string& sum, const char* mode) {
    Recipe recipe;
    const Model model = infer_shapes(with_constants(parse_model_text(R"(
      <ir_version: 8, opset_import: ["" : 17]>
      g (float[64,8] x) => (float[64,8] y) {
        [layer] a = MatMul(x, w)
        [sum] y = )" + sum + "(a, table) }"),
                                                    {{"w", {8, 8}}, {"table", {64, 8}}}));
    return take_mode(recipe, model, mode, Scheme::kInt8Weights, true);
  };
  EXPECT_TRUE(notes("Add", "static").empty());
  for (const char* mode : {"dynamic", "weights"}) {
    ASSERT_EQ(notes("Add", mode).size(), 1u);
    EXPECT_NE(notes("Add", mode)[0].find("constants of Add, for which there is no scheme among"), std::string::npos);
    ASSERT_EQ(notes("Div", mode).size(), 1u);
    EXPECT_NE(notes("Div", mode)[0].find("constants of Div, for which there is no scheme but float16"),
              std::string::npos);
  }
}

TEST(RecipeChoices, BodiesAreTold) {
  const Model model = parse_model_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4] x, bool c) => (float[1,4] y) <float[4,4] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}> {
      [layer] a = MatMul(x, w)
      [choice] y = If (c) <
        then_branch = then () => (float[1,4] t) { t = Relu(a) },
        else_branch = other () => (float[1,4] f) { f = Neg(a) }
      >
    })");
  expect_note(model, {"static", "dynamic", "weights"}, "% of the model lie in bodies of If, Loop or Scan");
}

TEST(RecipeChoices, ScalesForEachChannelNameNoTypeInDynamic) {
  const auto is = [](const char* name) {
    return [name](const char* field) { return field == std::string_view(name); };
  };
  EXPECT_FALSE(names_types("dynamic", is("per_channel")));
  EXPECT_TRUE(names_types("static", is("per_channel")));
  EXPECT_TRUE(names_types("dynamic", is("weight_type")));
  EXPECT_TRUE(names_types("dynamic", is("format")));
}

TEST(RecipeChoices, OtherFloatsAreRefusedInEachMode) {
  const Model model = parse_model_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (double[1,4] x) => (double[1,2] y) <double[4,2] w = {1,2,3,4,5,6,7,8}> {
      [layer] y = MatMul(x, w)
    })");
  for (const char* mode : {"static", "dynamic", "weights", "float16"}) {
    Recipe recipe;
    EXPECT_EQ(code_of([&] { take_mode(recipe, model, mode, Scheme::kInt8Weights, true); }), Code::kInvalidInput)
        << mode;
  }
}

TEST(RecipeChoices, RandomNumbersAreTold) {
  const Model model = parse_model_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4] x) => (float[1,2] y) <float[4,2] w = {1,2,3,4,5,6,7,8}> {
      [noise] n = RandomNormalLike(x)
      [sum] s = Add(x, n)
      [layer] y = MatMul(s, w)
    })");
  expect_note(model, {"static", "dynamic", "weights", "float16"}, "RandomNormalLike 'noise' draws random numbers");
}

TEST(RecipeChoices, AModelOfComputedWeightsAloneNeedsPreparing) {
  const Model model = parse_model_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4] x) => (float[1,2] y) <float16[4,2] half = {1,2,3,4,5,6,7,8}> {
      [wide] w = Cast<to = 1>(half)
      [layer] y = MatMul(x, w)
    })");
  try {
    require_quantizable(model, Scheme::kInt8);
    FAIL() << "it has nothing to quantize";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the weights of 1 layer found are computed from constants"),
              std::string::npos)
        << error.what();
  }
}

TEST(RecipeChoices, RecurrentLayersThatStayFloatAreTold) {
  const auto notes = [](const std::string& op_type, const char* mode) {
    const std::string gates = op_type == "GRU" ? "6" : "8";
    const Model model = parse_model_text(R"(<ir_version: 8, opset_import: ["" : 17]>
      g (float[3,1,2] x, float[1,)" + gates +
                                         R"(,2] w, float[2,2] v) => (float[1,1,2] y) <float[2,2] m = {1,2,3,4}> {
        [product] p = MatMul(x, m)
        [layer] a, y = )" + op_type + R"(<hidden_size = 2>(p, w, w) })");
    Recipe recipe;
    return take_mode(recipe, model, mode, Scheme::kInt8Weights, true);
  };
  ASSERT_EQ(notes("GRU", "dynamic").size(), 1u);
  EXPECT_TRUE(notes("GRU", "dynamic")[0].starts_with("recurrent layers that stay float in this mode: 1;"));
  EXPECT_TRUE(notes("LSTM", "dynamic").empty());
  EXPECT_EQ(notes("LSTM", "static").size(), 1u);
  EXPECT_TRUE(notes("GRU", "weights").empty());
}

TEST(RecipeChoices, DynamicLeavesConvolutionsTheirActivations) {
  const Model model = quantizable_form(parse_model_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,1,2,2] x) => (float[1,1,2,1] y) <float[1,1,1,1] w = {1}, float[2,1] v = {1,2}> {
      [conv] c = Conv(x, w)
      [product] y = MatMul(c, v)
    })"),
                                       {})
                          .model;
  Recipe recipe;
  EXPECT_EQ(take_mode(recipe, model, "dynamic", Scheme::kInt8Weights, true).size(), 1u);
  EXPECT_FALSE(recipe.everywhere);
  EXPECT_EQ(recipe.plan.schemes.at("conv"), Scheme::kInt8Weights);
  EXPECT_EQ(recipe.plan.schemes.at("product"), Scheme::kInt8Dynamic);
  // onnxruntime's model for those who name types, or the convolutions.
  recipe = {};
  EXPECT_TRUE(take_mode(recipe, model, "dynamic", Scheme::kInt8Weights, false).empty());
  EXPECT_EQ(recipe.everywhere, Scheme::kInt8Dynamic);
  recipe = {.quantize = {.op_types = {"Conv"}}};
  EXPECT_TRUE(take_mode(recipe, model, "dynamic", Scheme::kInt8Weights, true).empty());
  EXPECT_EQ(recipe.everywhere, Scheme::kInt8Dynamic);
}

TEST(RecipeChoices, WhatAPlanTakesSamplesFor) {
  const auto of_plan = [](LayerOptions fields) {
    Model model = network();
    Recipe recipe;
    Plan plan;
    plan.schemes["product"] = Scheme::kInt8;
    plan.options["product"] = std::move(fields);
    take_plan(recipe, std::move(plan), model);
    EXPECT_FALSE(recipe.rewritten_for);
    return samples_for(recipe);
  };
  EXPECT_EQ(of_plan({}), SamplesFor::kRanges);
  EXPECT_EQ(of_plan({.method = "entropy"}), SamplesFor::kPlannedMethods);
  EXPECT_EQ(of_plan({.method = "entropy", .equalize = true}), SamplesFor::kPlannedRewriting);
  EXPECT_EQ(of_plan({.learned_rounding = true}), SamplesFor::kPlannedCorrections);
  Recipe recipe{.improvers = {.bias_correction = BiasCorrection::kFast}};
  EXPECT_EQ(samples_for(recipe), SamplesFor::kImprovers);
}

TEST(RecipeChoices, NamedImproversStayBesideTheUsualOnes) {
  const ImproveOptions usual = default_improvers();
  const ImproveOptions found = joined({.smooth = true, .bias_correction = BiasCorrection::kFull}, usual);
  EXPECT_TRUE(found.smooth && found.equalize == usual.equalize && found.learned_rounding == usual.learned_rounding);
  EXPECT_EQ(found.bias_correction, BiasCorrection::kFull);
  EXPECT_EQ(found.max_rounding_inputs, kWidestUnasked);
  EXPECT_EQ(joined({.max_rounding_inputs = 9}, usual).max_rounding_inputs, 9);
}

}  // namespace
}  // namespace seqto
