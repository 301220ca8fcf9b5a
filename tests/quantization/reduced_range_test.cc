// With reduce_range no weight gets a code outside of the reduced range of its type, whoever chose the codes. One step
// beyond, and 16 bits no longer hold two products with uint8: 2 * 255 * 65 > 32,767.
#include <gtest/gtest.h>

#include <algorithm>
#include <ranges>

#include "quantization/arithmetic/arithmetic.h"
#include "seqto/calibrate.h"
#include "seqto/improve.h"
#include "testing/rewrites.h"

namespace seqto {
namespace {

using namespace testing_rewrites;
using internal::quant_limits;
using internal::QuantLimits;

// Heavy tails in w0, which clipping cuts off; a weight that two layers share; a Concat.
constexpr const char* kNetwork = R"(<ir_version: 8, opset_import: ["" : 13]>
g (float[1,4,5,5] x) => (float[1,3] y) {
  h = Conv <pads = [1,1,1,1]> (x, w0, b0)
  r = Relu (h)
  d = Conv <pads = [1,1,1,1], group = 4> (r, w1)
  c = Conv (d, w2, b2)
  s = Conv (r, w2)
  t = Concat <axis = 1> (c, s)
  v = Conv (t, w4)
  p = GlobalAveragePool (v)
  f = Flatten (p)
  y = MatMul (f, w3)
})";

struct Improvement {
  const char* name;
  ImproveOptions options;
  WeightClipping clipping = WeightClipping::kNone;
  bool unify = false;
};
const std::vector<Improvement>& improvements() {
  constexpr auto kMse = WeightClipping::kMse;
  static const std::vector<Improvement> all{
      {"none", {}},
      {"weight clipping", {}, kMse},
      {"learned rounding", {.learned_rounding = true}},
      {"clipping and rounding", {.learned_rounding = true}, kMse},
      {"bias correction", {.bias_correction = BiasCorrection::kFull}},
      {"equalize", {.equalize = true}},
      {"center", {.center = true}},
      {"smooth", {.smooth = true}},
      {"refined ranges", {.refine_ranges = true}},
      {"unified Concats", {}, WeightClipping::kNone, true},
      {"recommended", recommended_improvers(), WeightClipping::kNone, true},
      {"all",
       {.center = true,
        .equalize = true,
        .smooth = true,
        .learned_rounding = true,
        .refine_ranges = true,
        .bias_correction = BiasCorrection::kFull},
       kMse,
       true},
  };
  return all;
}

struct Kind {
  DataType type;
  bool symmetric, per_channel;
};
constexpr Kind kKinds[]{{DataType::kInt8, true, false},  {DataType::kInt8, true, true},
                        {DataType::kInt8, false, false}, {DataType::kUint8, true, false},
                        {DataType::kUint8, true, true},  {DataType::kUint8, false, false}};

Model network() {
  Model model = with_weights(kNetwork);
  std::vector<float> tails = values(4, 4 * 9, 1);
  for (size_t i = 0; i < tails.size(); i += 36) tails[i] *= 4;
  for (Initializer& i : model.graph.initializers)
    if (i.name == "w0") i.tensor = float_tensor(i.tensor.dims(), std::move(tails));
  model.graph.initializers.push_back({"w4", float_tensor({4, 8, 1, 1}, values(4, 8, 7))});
  name_nodes(model);
  return infer_shapes(model);
}

bool inside(const Tensor& codes) {
  const QuantLimits limits = quant_limits(codes.type(), true);
  return std::ranges::all_of(std::views::iota(int64_t{0}, codes.element_count()), [&](int64_t i) {
    return element(codes, i) >= limits.lowest && element(codes, i) <= limits.highest;
  });
}

// Codes are the initializers of this type with more than one axis.
std::vector<std::string> outside(const Model& model, DataType type) {
  std::vector<std::string> names;
  int64_t weights = 0;
  for (const Initializer& i : model.graph.initializers) {
    if (i.tensor.type() != type || i.tensor.dims().size() < 2) continue;
    ++weights;
    if (!inside(i.tensor)) names.push_back(i.name);
  }
  EXPECT_GE(weights, 4);
  return names;
}

class ReducedRange : public RewriteTest {
 protected:
  // As `seqto quantize` goes on.
  Model made(const Improvement& improver, QuantizeOptions options, Scheme scheme) {
    options.weight_clipping = improver.clipping;
    options.unify_concat = improver.unify;
    const Model model = network();
    const Dataset& dataset = data(model);
    Model rewritten = rewrite_for(model, improver.options, options, scheme, {dataset, samples_, *runner_});
    Ranges ranges;
    if (is_static(scheme)) ranges = calibrate(rewritten, {dataset, samples_, *runner_});
    const Plan plan = uniform_plan(rewritten, scheme, options.exclude);
    Improved improved = improve({rewritten, ranges, options, plan}, improver.options, {dataset, samples_, *runner_});
    return Quantizer(rewritten, improved.ranges, options).quantize(plan, {improved.corrections});
  }
};

TEST_F(ReducedRange, HoldsWhicheverImproverChoseTheCodes) {
  for (const Kind& kind : kKinds)
    for (const Improvement& improver : improvements())
      for (QuantFormat format : {QuantFormat::kQdq, QuantFormat::kQoperator}) {
        // onnxruntime has int8 weights of channels alone there.
        if (format == QuantFormat::kQoperator && kind.type == DataType::kUint8 && kind.per_channel) continue;
        QuantizeOptions options{.format = format,
                                .activation_type = DataType::kUint8,
                                .weight_type = kind.type,
                                .per_channel = kind.per_channel,
                                .reduce_range = true,
                                .symmetric_weights = kind.symmetric};
        EXPECT_EQ(outside(made(improver, options, Scheme::kInt8), kind.type), std::vector<std::string>{})
            << improver.name << ", " << to_string(kind.type) << (kind.symmetric ? " symmetric" : "")
            << (kind.per_channel ? " per channel, " : ", ") << to_string(format);
      }
}

TEST_F(ReducedRange, HoldsInDynamicLayers) {
  for (const Kind& kind : kKinds)
    for (const Improvement& improver : improvements()) {
      if (improver.options.corrects() || improver.unify) continue;  // of static layers
      QuantizeOptions options{.weight_type = kind.type,
                              .per_channel = kind.per_channel,
                              .reduce_range = true,
                              .symmetric_weights = kind.symmetric};
      EXPECT_EQ(outside(made(improver, options, Scheme::kInt8Dynamic), kind.type), std::vector<std::string>{})
          << improver.name << ", " << to_string(kind.type) << ", " << kind.per_channel;
    }
}

// Also of a weight that another layer reads, and with 8 bits beside it.
TEST_F(ReducedRange, HoldsForTheLayersWhoseFieldsAskForIt) {
  const Model model = network();
  const Ranges ranges = calibrate(model, {data(model), samples_, *runner_});
  for (const WeightClipping clipping : {WeightClipping::kNone, WeightClipping::kMse})
    for (const char* asks : {"w0", "w2"})
      for (QuantFormat format : {QuantFormat::kQdq, QuantFormat::kQoperator}) {
        Plan plan = uniform_plan(model, Scheme::kInt8);
        for (const Node& n : model.graph.nodes)
          if (std::ranges::count(n.inputs, asks) && n.outputs[0] != "c") plan.options[n.name].reduce_range = true;
        ASSERT_EQ(plan.options.size(), 1u);
        QuantizeOptions options{.format = format, .activation_type = DataType::kUint8, .weight_clipping = clipping};
        const ImproveOptions learned{.learned_rounding = true};
        const Improved found = improve({model, ranges, options, plan}, learned, {data(model), samples_, *runner_});
        const Model quantized = Quantizer(model, ranges, options).quantize(plan, {found.corrections});
        const auto codes = [&](const std::string& weight) -> const Tensor* {
          for (const Node& n : quantized.graph.nodes)
            if (n.name.starts_with(plan.options.begin()->first))
              for (const Initializer& i : quantized.graph.initializers)
                if (i.tensor.dims().size() > 1 && i.name.starts_with(weight) &&
                    (format == QuantFormat::kQdq || std::ranges::count(n.inputs, i.name)))
                  return &i.tensor;
          return nullptr;
        };
        ASSERT_TRUE(codes(asks)) << asks;
        EXPECT_TRUE(inside(*codes(asks))) << asks << ", " << to_string(format);
        std::vector<std::string> wide = outside(quantized, DataType::kInt8);
        EXPECT_TRUE(std::ranges::any_of(wide, [](const std::string& n) { return n.starts_with("w1"); }))
            << "the others keep 8 bits";
      }
}

// Of the same float weight the runtime's QuantizeLinear would make codes of 8 bits.
TEST_F(ReducedRange, HoldsWhereTheRuntimeRoundsTheWeight) {
  const Model model = network();
  Quantizer quantizer(model, calibrate(model, {data(model), samples_, *runner_}),
                      {.activation_type = DataType::kUint8,
                       .weight_clipping = WeightClipping::kMse,
                       .reduce_range = true,
                       .add_qdq_pair_to_weight = true});
  Model paired = quantizer.quantize(uniform_plan(model, Scheme::kInt8));
  paired.graph.outputs = {};
  for (const Node& n : paired.graph.nodes)
    if (n.op_type == "QuantizeLinear" && n.inputs[0].starts_with("w"))
      paired.graph.outputs.push_back({n.outputs[0], DataType::kInt8, {}});
  ASSERT_EQ(paired.graph.outputs.size(), 5u);
  const auto session = runner_->load(paired, {SessionOptions::Optimization::kNone});
  for (const Tensor& codes : session->run(data(model).read(0).inputs)) EXPECT_TRUE(inside(codes));
}

// onnxruntime's own codes, for those who want its bytes.
TEST_F(ReducedRange, CompatKeepsOnnxruntimesCodes) {
  const Model model = network();
  for (const bool compat : {false, true}) {
    Quantizer quantizer(model, calibrate(model, {data(model), samples_, *runner_}),
                        {.activation_type = DataType::kUint8,
                         .weight_type = DataType::kUint8,
                         .reduce_range = true,
                         .symmetric_weights = true,
                         .compat_onnxruntime = compat});
    const Model quantized = quantizer.quantize(uniform_plan(model, Scheme::kInt8));
    EXPECT_EQ(outside(quantized, DataType::kUint8).empty(), !compat);
    EXPECT_EQ(std::ranges::count(quantizer.deviations(), "D57"), compat ? 0 : 1);
  }
}

// A study from before may have learned codes of 8 bits under the same scales.
TEST_F(ReducedRange, LearnedCodesOfEightBitsAreNotApplied) {
  const Model model = network();
  Quantizer quantizer(model, calibrate(model, {data(model), samples_, *runner_}), {.reduce_range = true});
  const Plan plan = uniform_plan(model, Scheme::kInt8);
  const Model quantized = quantizer.quantize(plan);
  Rounding rounding = learn_rounding({quantizer, plan}, {data(model), samples_, *runner_});
  ASSERT_FALSE(rounding.empty());
  EXPECT_FALSE(equal(quantizer.quantize(plan, {{.rounding = rounding}}), quantized));
  for (auto& [layer, rounded] : rounding) {
    std::vector<int8_t> codes(rounded.codes.values<int8_t>().begin(), rounded.codes.values<int8_t>().end());
    codes[0] = 65;
    rounded.codes = Tensor::from(DataType::kInt8, rounded.codes.dims(), std::move(codes));
  }
  EXPECT_TRUE(equal(quantizer.quantize(plan, {{.rounding = rounding}}), quantized));
}

}  // namespace
}  // namespace seqto
