#include "quantization/encode/readout.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "seqto/quantize.h"

namespace seqto {
namespace {

using internal::readout;
using Names = std::unordered_set<std::string>;

// A wide layer c behind x, two small ones on it, boxes and scores, and what `rest` makes of their outputs p and q.
Model head(const std::string& rest) {
  const std::string text = R"(<ir_version: 8, opset_import: ["" : 13]>
g (float[1,4,5,5] x) => (float y) {
  c = Conv <pads = [1,1,1,1]> (x, wide)
  r = Relu (c)
  p = Conv (r, boxes)
  q = Conv (r, scores)
)" + rest + "}";
  Model model = parse_model_text(text);
  const auto add = [&](const char* name, std::vector<int64_t> dims) {
    int64_t size = 1;
    for (const int64_t d : dims) size *= d;
    model.graph.initializers.push_back({name, float_tensor(dims, std::vector<float>(static_cast<size_t>(size), 0.1f))});
  };
  add("wide", {32, 4, 3, 3});
  add("boxes", {2, 32, 1, 1});
  add("scores", {1, 32, 1, 1});
  add("again", {3, 3, 1, 1});
  add("narrow", {1, 1, 1, 1});
  add("grid", {1, 2, 5, 5});
  name_nodes(model);
  return infer_shapes(model);
}

Names found(const std::string& rest) {
  const Model model = head(rest);
  return readout(model, internal::GraphView(model));
}

TEST(Readout, IsTheLastLayersAndWhatIsBehind) {
  EXPECT_EQ(found("  b = Add (p, grid)\n  s = Sigmoid (q)\n  y = Concat <axis = 1> (b, s)"),
            Names({"p", "q", "b", "s", "y"}));
}

TEST(Readout, IsWhatRoundsForTheLastLayersAlone) {
  const std::string silu = R"(  g = Sigmoid (c)
  h = Mul (c, g)
  t = Conv (h, scores)
  y = Concat <axis = 1> (p, t))";
  EXPECT_EQ(found(silu), Names({"p", "q", "g", "h", "t", "y"}))
      << "r stays: the codes of a Relu are those of its layer";
  EXPECT_EQ(found("  h = LeakyRelu (c)\n  t = Conv (h, scores)\n  u = MaxPool <kernel_shape = [5,5]> (h)\n"
                  "  v = Conv (u, scores)\n  w = Conv (v, narrow)\n  y = Concat <axis = 1> (p, t)"),
            Names({"p", "q", "t", "w", "y"}))
      << "v, a layer on codes, reads h too";
}

TEST(Readout, WideLastLayersAreQuantized) {
  Model model = head("  s = Sigmoid (q)\n  y = Concat <axis = 1> (p, s)");
  for (Initializer& i : model.graph.initializers)
    if (i.name == "wide") i.tensor = float_tensor({32, 4, 1, 1}, std::vector<float>(128, 0.1f));
  EXPECT_EQ(readout(model, internal::GraphView(model)), Names({"s", "y"})) << "96 of 224 weights";
}

TEST(Readout, IsNoneWhereOneAnswerIsGiven) {
  EXPECT_EQ(found("  s = Sigmoid (q)\n  t = Softmax (p)\n  y = Identity (s)"), Names());
  EXPECT_EQ(found("  t = Concat <axis = 1> (p, q)\n  y = Conv (t, again)"), Names()) << "a layer reads the Concat";
}

TEST(Readout, AMeanOverSharesIsNoLayer) {
  const std::string rest = R"(  o = Softmax <axis = 3> (p)
  m = MatMul (o, distances)
  s = ReduceMean <axes = [3], keepdims = 1> (q)
  y = Concat <axis = 1> (m, s))";
  Model model = head(rest);
  model.graph.initializers.push_back({"distances", float_tensor({5, 1}, {0, 1, 2, 3, 4})});
  EXPECT_EQ(readout(model, internal::GraphView(model)), Names({"p", "q", "o", "m", "s", "y"}));
}

TEST(Readout, IsLeftInFloatWhereThatIsAskedFor) {
  const Model model = head("  s = Sigmoid (q)\n  y = Concat <axis = 1> (p, s)");
  Ranges ranges;
  for (const char* name : {"x", "c", "r", "p", "q", "s", "y"}) ranges[name] = {-1, 1};
  const auto rounded = [&](const QuantizeOptions& options, const char* tensor) {
    Quantizer quantizer(model, ranges, options);
    const Model result = quantizer.quantize(uniform_plan(model, Scheme::kInt8));
    return std::ranges::any_of(result.graph.nodes, [&](const Node& n) {
      return n.op_type == "QuantizeLinear" && n.inputs[0].starts_with(tensor);
    });
  };
  const QuantizeOptions plain, asked{.float_unlike_concat = true},
      compat{.float_unlike_concat = true, .compat_onnxruntime = true},
      wide{.activation_type = DataType::kUint16, .float_unlike_concat = true};
  EXPECT_TRUE(rounded(plain, "p"));
  EXPECT_FALSE(rounded(asked, "p"));
  EXPECT_FALSE(rounded(asked, "y"));
  EXPECT_TRUE(rounded(asked, "r")) << "what is in front of them still is in 8 bits";
  EXPECT_TRUE(rounded(compat, "p"));
  EXPECT_TRUE(rounded(wide, "p")) << "16 bits are fine enough";
}

}  // namespace
}  // namespace seqto
