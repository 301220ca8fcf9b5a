#include <gtest/gtest.h>

#include <algorithm>

#include "seqto/quantize.h"

namespace seqto {
namespace {

// A weight with a scale for each channel that a Gather reads as well: the codes that it picks cannot have that vector
// of scales, so its output gets parameters of its own. Without a range the quantizer stopped; now the output is float.
TEST(SharedCodes, AGatherOfAWeightPerChannelNeedsNoRange) {
  Model model = infer_shapes(parse_model_text(R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[1,2] x) => (float[1,3] y, float[1,3] z)
<float[2,3] w = {1.0, -2.0, 3.0, 4.0, 0.5, 0.25}, int64[1] i = {1}> {
  [mul] y = MatMul(x, w)
  [pick] t = Gather(w, i)
  [neg] z = Neg(t) })"));
  QuantizeOptions options;
  options.per_channel = true;
  Ranges ranges{{"x", {-1, 1}}, {"y", {-3, 3}}};
  auto quantizers_of = [&](const std::string& tensor) {
    Model quantized = Quantizer(model, ranges, options).quantize(uniform_plan(model, Scheme::kInt8));
    check_model(quantized);
    return std::count_if(quantized.graph.nodes.begin(), quantized.graph.nodes.end(),
                         [&](const Node& n) { return n.name == tensor + "_QuantizeLinear"; });
  };
  EXPECT_EQ(quantizers_of("t"), 0);
  ranges["t"] = {-1, 4};
  EXPECT_EQ(quantizers_of("t"), 1);
}

}  // namespace
}  // namespace seqto
