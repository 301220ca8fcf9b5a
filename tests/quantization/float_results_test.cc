#include "quantization/encode/float_results.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "seqto/quantize.h"
#include "seqto/target.h"

namespace seqto {
namespace {

using Names = std::unordered_set<std::string>;

const std::vector<std::string> kProducts{"MatMul", "Gemm"};

Model parsed(const std::string& text, const std::vector<std::pair<const char*, std::vector<int64_t>>>& weights) {
  Model model = parse_model_text("<ir_version: 8, opset_import: [\"\" : 13]>\n" + text);
  for (const auto& [name, dims] : weights) {
    const int64_t size = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies());
    model.graph.initializers.push_back({name, float_tensor(dims, std::vector<float>(static_cast<size_t>(size), 0.1f))});
  }
  name_nodes(model);
  return infer_shapes(model);
}

Names found(const Model& model) { return internal::float_results(model, internal::GraphView(model), kProducts); }

// A block of a transformer behind an embedding, with angles of positions.
Model block() {
  return parsed(R"(g (int64[1,4] ids, int64[1,4] places) => (float y) {
  e = Gather (table, ids)
  p = Cast <to = 1> (places)
  turns = Mul (p, speed)
  c = Cos (turns)
  m = MatMul (e, w)
  s = Softmax <axis = -1> (m)
  a = Add (e, s)
  y = MatMul (a, w)
})",
                {{"table", {9, 4}}, {"w", {4, 4}}, {"speed", {1}}});
}

// A residual block of a CNN whose channels are weighed by what a product says of their means, and its answer.
Model weighed() {
  return parsed(R"(g (float[1,4,5,5] x) => (float y) {
  c = Conv <pads = [1,1,1,1]> (x, k)
  r = Relu (c)
  mean = GlobalAveragePool (r)
  flat = Flatten (mean)
  m = MatMul (flat, w)
  s = Sigmoid (m)
  shape = Constant <value_ints = [1, 4, 1, 1]> ()
  factor = Reshape (s, shape)
  scaled = Mul (r, factor)
  a = Add (scaled, x)
  pool = GlobalAveragePool (a)
  last = Flatten (pool)
  g = Gemm (last, w)
  y = Softmax (g)
})",
                {{"k", {4, 4, 3, 3}}, {"w", {4, 4}}});
}

TEST(FloatResults, AreWhatLiesBetweenProducts) {
  EXPECT_EQ(found(block()), Names({"e", "p", "turns", "c", "m", "s", "a", "y"}));
}

TEST(FloatResults, AFactorOfEachChannelDoesNotMakeFloatsOfTheImage) {
  EXPECT_EQ(found(weighed()), Names({"m", "s", "factor", "g", "y"}));
}

TEST(FloatResults, AreNoneOfOperatorsThatAreNotNamed) {
  const Model model = weighed();
  EXPECT_EQ(internal::float_results(model, internal::GraphView(model), {}), Names());
}

TEST(FloatResults, StayInFloatWhereThatIsAskedFor) {
  const Model model = block();
  Ranges ranges;
  for (const char* name : {"e", "p", "turns", "c", "m", "s", "a", "y"}) ranges[name] = {-1, 1};
  const auto readers = [&](const QuantizeOptions& options, std::vector<std::string>* ids = nullptr) {
    Quantizer quantizer(model, ranges, options);
    const Model result = quantizer.quantize(uniform_plan(model, Scheme::kInt8));
    if (ids) *ids = quantizer.deviations();
    std::set<std::string> types;
    for (const Node& n : result.graph.nodes)
      for (const std::string& input : n.inputs)
        if (input.ends_with("_DequantizeLinear_Output")) types.insert(n.op_type);
    return types;
  };
  QuantizeOptions options{.exclude_output_op_types = kProducts};
  EXPECT_TRUE(readers(options).contains("Softmax"));
  EXPECT_TRUE(readers(options).contains("Add"));
  options.float_between_products = true;
  std::vector<std::string> ids;
  EXPECT_EQ(readers(options, &ids), (std::set<std::string>{"Gather", "MatMul", "Add"})) << "Add reads the codes' rows";
  EXPECT_EQ(ids, std::vector<std::string>{"D59"});
  options.compat_onnxruntime = true;
  EXPECT_TRUE(readers(options).contains("Softmax"));
}

TEST(FloatResults, AProductOfConstantsAloneIsFloat) {
  const Model model = parsed(R"(g (float[1,4] x) => (float[1,4] y, float[4,4] places) {
  grid = Neg (w)
  angles = MatMul (grid, w)
  places = Sin (angles)
  y = MatMul (x, w)
})",
                             {{"w", {4, 4}}});
  Ranges ranges;
  for (const char* name : {"x", "grid", "angles", "places", "y"}) ranges[name] = {-1, 1};
  const auto pairs_at = [&](const QuantizeOptions& options, const char* tensor) {
    const Model result = Quantizer(model, ranges, options).quantize(uniform_plan(model, Scheme::kInt8));
    return std::ranges::any_of(result.graph.nodes,
                               [&](const Node& n) { return n.op_type == "QuantizeLinear" && n.inputs[0] == tensor; });
  };
  const QuantizeOptions best{.float_between_products = true};
  EXPECT_FALSE(pairs_at(best, "angles"));
  EXPECT_TRUE(pairs_at(best, "x"));
  EXPECT_TRUE(pairs_at({}, "angles"));
}

// A product reads the codes of what lies between products, all else reads it as it was.
TEST(FloatResults, AreReadAsTheyWereByWhatIsInFloat) {
  const Model model = parsed(R"(g (float[1,4] x) => (float[1,4] y, float[1,4] n) {
  m = MatMul (x, w)
  n = Tanh (m)
  q = MatMul (n, w)
  s = Add (q, n)
  y = MatMul (s, w)
})",
                             {{"w", {4, 4}}});
  Ranges ranges;
  for (const char* name : {"x", "m", "n", "q", "s", "y"}) ranges[name] = {-1, 1};
  const auto inputs = [&](const QuantizeOptions& options, const char* op_type) {
    const Model result = Quantizer(model, ranges, options).quantize(uniform_plan(model, Scheme::kInt8));
    std::vector<std::string> names;
    for (const Node& n : result.graph.nodes)
      if (n.op_type == op_type) names.insert(names.end(), n.inputs.begin(), n.inputs.end());
    return names;
  };
  QuantizeOptions options{.float_between_products = true, .exclude_output_op_types = kProducts};
  EXPECT_EQ(inputs(options, "Add"), (std::vector<std::string>{"q", "n"}));
  EXPECT_EQ(inputs(options, "MatMul")[2], "n_DequantizeLinear_Output");
  EXPECT_EQ(inputs(options, "QuantizeLinear")[3], "n") << "an output of the model, too";
  options.compat_onnxruntime = true;
  EXPECT_EQ(inputs(options, "QuantizeLinear")[3], "n_QuantizeLinear_Input");
}

TEST(FloatResults, AreAskedForWhereTypesAreFastAndByTheTablesOfThatRuntime) {
  QuantizeOptions on_cpu, elsewhere, named{.exclude_output_op_types = {"Conv"}}, npu;
  take_fast_types(on_cpu);
  take_fast_types(elsewhere, "cuda");
  take_fast_types(named);
  take_target_types(npu, load_target("qnn-htp"));
  EXPECT_EQ(on_cpu.float_between_products, load_target("onnxruntime-cpu-x86").float_between_products);
  EXPECT_FALSE(elsewhere.float_between_products);
  EXPECT_FALSE(named.float_between_products);
  EXPECT_FALSE(npu.float_between_products);
}

}  // namespace
}  // namespace seqto
