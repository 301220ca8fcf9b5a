#include <gtest/gtest.h>

#include "seqto/quantize.h"

namespace seqto {
namespace {

// A Relu behind the model's own pair was taken out although a layer had been led to that pair's output, which then had
// no producer any more.
TEST(ExistingPairs, AReluBehindThemStaysWhereALayerReadsThem) {
  for (const char* order : {"[mul] y = Gemm(t, w) [relu] z = Relu(d)", "[relu] z = Relu(d) [mul] y = Gemm(t, w)"}) {
    Model model = infer_shapes(parse_model_text(std::string(R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[1,2] x) => (float[1,2] y, float[1,2] z)
<float[2,2] w = {1.0, -2.0, 3.0, 4.0}, float s = {0.1}, uint8 p = {0}> {
  [sigmoid] t = Sigmoid(x)
  [q] c = QuantizeLinear(t, s, p)
  [dq] d = DequantizeLinear(c, s, p) )") + order +
                                                "}"));
    QuantizeOptions options;
    options.activation_type = DataType::kUint8;
    Ranges ranges{{"x", {-1, 1}}, {"t", {0, 1}}, {"d", {0, 1}}, {"y", {-3, 3}}, {"z", {0, 1}}};
    Quantizer quantizer(model, ranges, options);
    EXPECT_NO_THROW(check_model(quantizer.quantize(uniform_plan(model, Scheme::kInt8)))) << order;
  }
}

}  // namespace
}  // namespace seqto
