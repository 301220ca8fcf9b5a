#include <gtest/gtest.h>

#include "seqto/improve.h"
#include "seqto/quantize.h"
#include "testing/rewrites.h"

namespace seqto {
namespace {

using namespace testing_rewrites;

// Inputs of very different size meet weights whose large values hardly count.
constexpr const char* kProducts = R"(<ir_version: 8, opset_import: ["" : 21]>
g (float[1,4,5,5] x) => (float[20,64] y) {
  rows = Reshape (x, shape)
  wide = MatMul (rows, spread)
  waves = Sin (wide)
  inputs = Mul (waves, sizes)
  h = MatMul (inputs, first)
  r = Relu (h)
  y = Gemm <transB = 1> (r, second, bias)
})";
constexpr const char* kConvs = R"(<ir_version: 8, opset_import: ["" : 21]>
g (float[1,4,5,5] x) => (float[1,32,3,3] y) {
  h = Conv <pads = [1,1,1,1]> (x, first, bias)
  r = Relu (h)
  y = Conv <group = 4> (r, second)
})";

Model with_constants(const char* text, const std::vector<std::vector<int64_t>>& dims) {
  Model model = parse_model_text(text);
  const char* names[] = {"first", "second", "bias"};
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t columns = 1;
    for (size_t d = 1; d < dims[i].size(); ++d) columns *= dims[i][d];
    model.graph.initializers.push_back(
        {names[i], float_tensor(dims[i], values(dims[i][0], columns, static_cast<uint32_t>(i)))});
  }
  return model;
}
Model products() {
  Model model = with_constants(kProducts, {{40, 96}, {64, 96}, {64}});
  std::vector<float> spread = values(5, 40, 8);
  for (float& value : spread) value *= 40;
  model.graph.initializers.push_back({"spread", float_tensor({5, 40}, spread)});
  model.graph.initializers.push_back({"sizes", float_tensor({40}, values(40, 1, 7))});
  model.graph.initializers.push_back({"shape", int64_tensor({2}, {20, 5})});
  name_nodes(model);
  return infer_shapes(model);
}
Model convs() {
  Model model = with_constants(kConvs, {{32, 4, 3, 3}, {32, 8, 3, 3}, {32}});
  name_nodes(model);
  return infer_shapes(model);
}

class ScaleSearch : public RewriteTest {
 protected:
  // What makes the inputs stays in float.
  static Plan plan_of(const Model& model, Scheme scheme) {
    return uniform_plan(model, scheme, {model.graph.nodes[1].op_type == "MatMul" ? model.graph.nodes[1].name : ""});
  }
  double error(const Model& model, const Model& candidate) {
    const auto wanted = outputs(model), found = outputs(candidate);
    double sum = 0;
    for (size_t s = 0; s < wanted.size(); ++s)
      for (size_t i = 0; i < wanted[s].size(); ++i) sum += std::pow(wanted[s][i] - found[s][i], 2);
    return sum;
  }
  SampleRun on(const Model& model) { return {data(model), samples_, *runner_}; }
};

TEST_F(ScaleSearch, LowersTheErrorOfEveryFormOf4Bits) {
  for (const Int4Format format : {Int4Format::kMatMulNBits, Int4Format::kQdq, Int4Format::kFolded})
    for (const bool symmetric : {false, true}) {
      SCOPED_TRACE(std::string(to_string(format)) + (symmetric ? ", symmetric" : ""));
      const Model model = products();
      QuantizeOptions options;
      options.weight_only.int4_format = format;
      options.weight_only.int4_symmetric = symmetric;
      options.weight_only.int4_block_size = 32;
      Quantizer quantizer(model, {}, options);
      const Plan plan = plan_of(model, Scheme::kInt4Weights);
      const Rescaling found = search_scales({quantizer, plan}, on(model));
      ASSERT_EQ(found.size(), 2u);
      for (const auto& [layer, r] : found) {
        EXPECT_LT(r.error_after, 0.9 * r.error_before) << layer;
        EXPECT_EQ(r.scale.size(), r.scale_before.size()) << layer;
      }
      const Model before = quantizer.quantize(plan), after = quantizer.quantize(plan, {{.scales = found}});
      EXPECT_EQ(serialize(before).size(), serialize(after).size());
      EXPECT_LT(error(model, after), 0.9 * error(model, before));
    }
}

TEST_F(ScaleSearch, KnowsTheInputsOfAConvolutionByGroup) {
  const Model model = convs();
  for (const Scheme scheme : {Scheme::kInt4Weights, Scheme::kInt8Weights}) {
    Quantizer quantizer(model, {}, {});
    const Plan plan = plan_of(model, scheme);
    const Rescaling found = search_scales({quantizer, plan}, on(model));
    ASSERT_EQ(found.size(), 2u) << to_string(scheme);
    for (const auto& [layer, r] : found) EXPECT_LT(r.error_after, r.error_before) << layer;
    EXPECT_LT(error(model, quantizer.quantize(plan, {{.scales = found}})), error(model, quantizer.quantize(plan)));
  }
}

TEST_F(ScaleSearch, LeavesScalesThatAreNotThoseThatItWasMadeFor) {
  const Model model = products();
  QuantizeOptions symmetric;
  symmetric.weight_only.int4_symmetric = true;
  Quantizer one(model, {}, {}), other(model, {}, symmetric);
  const Plan plan = plan_of(model, Scheme::kInt4Weights);
  const Corrections found{.scales = search_scales({one, plan}, on(model))};
  EXPECT_NE(serialize(one.quantize(plan)), serialize(one.quantize(plan, {found})));
  EXPECT_EQ(serialize(other.quantize(plan)), serialize(other.quantize(plan, {found})));
  EXPECT_EQ(serialize(one.quantize(plan, {found})), serialize(one.quantize(plan, {found, found})));
}

TEST_F(ScaleSearch, IsForLayersWhoseRoundingIsNotLearned) {
  const Model model = products();
  const Plan plan = plan_of(model, Scheme::kInt4Weights);
  const QuantizeOptions options;
  const Ranges ranges;
  const auto improved = [&](const ImproveOptions& improvers) {
    return improve({model, ranges, options, plan}, improvers, on(model)).corrections;
  };
  const Corrections learned = improved({.learned_rounding = true, .max_rounding_inputs = 40});
  const Corrections both = improved({.scale_search = true, .learned_rounding = true, .max_rounding_inputs = 40});
  ASSERT_EQ(learned.rounding.size(), 1u);
  ASSERT_EQ(both.rounding.size(), 1u);
  ASSERT_EQ(both.scales.size(), 1u) << "the layer of 96 inputs";
  EXPECT_FALSE(both.scales.contains(both.rounding.begin()->first));
  Quantizer quantizer(model, ranges, options);
  EXPECT_LT(error(model, quantizer.quantize(plan, {both})), error(model, quantizer.quantize(plan, {learned})));
}

}  // namespace
}  // namespace seqto
