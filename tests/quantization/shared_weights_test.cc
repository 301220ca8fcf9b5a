#include "quantization/plan/shared_weights.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "seqto/plan.h"
#include "seqto/quantize.h"

namespace seqto {
namespace {

using namespace internal;

constexpr int64_t kRows = 96, kColumns = 64;

Model with_table(std::string_view text, std::vector<int64_t> dims = {kRows, kColumns}) {
  Model model = parse_model_text(text);
  std::vector<float> values(static_cast<size_t>(dims[0] * dims[1]));
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.01f * (static_cast<float>(i % 89) - 40.0f);
  model.graph.initializers.push_back({"table", float_tensor(dims, values)});
  name_nodes(model);
  return infer_shapes(model);
}

// The head reads the embedding's table through a Transpose, as exporters write tied weights.
Model tied() {
  return with_table(R"(<ir_version: 8, opset_import: ["" : 17]>
g (int64[3] ids) => (float[3,96] y) {
  [embed] e = Gather(table, ids)
  [norm] n = Tanh(e)
  [turn] t = Transpose<perm = [1,0]>(table)
  [head] y = MatMul(n, t) })");
}

// Bytes of what is left of the table: its values or codes, without scales.
int64_t stored_bytes(const Model& model) {
  int64_t bytes = 0;
  for (const Initializer& i : model.graph.initializers)
    if (std::ssize(i.tensor.bytes()) >= kRows * kColumns / 2) bytes += std::ssize(i.tensor.bytes());
  return bytes;
}

const Node* node(const Model& model, const std::string& name) {
  auto it = std::ranges::find(model.graph.nodes, name, &Node::name);
  return it == model.graph.nodes.end() ? nullptr : &*it;
}

struct Written {
  Model model;
  std::vector<std::string> notes;
};
Written write(const Model& model, const Plan& plan, const QuantizeOptions& options = {}) {
  Quantizer quantizer(model, {{"e", {-1, 1}}, {"n", {-1, 1}}, {"y", {-9, 9}}, {"table", {-1, 1}}}, options);
  Model result = quantizer.quantize(plan);
  EXPECT_NO_THROW(check_model(result));
  return {std::move(result), quantizer.notes()};
}

// As PyTorch's exporter names a weight again that two layers share.
TEST(SharedWeights, AreOneBehindAnIdentityBesideBodies) {
  const Model model = quantizable_form(with_table(R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[2,96] a, float[2,96] b, bool c) => (float[2,64] y, float[2,64] z) {
  again = Identity(table)
  [first] p = MatMul(a, table)
  [second] q = MatMul(b, again)
  y = Add(p, q)
  z = If(c) <then_branch = t () => (float[2,64] u) { u = Neg(p) }, else_branch = e () => (float[2,64] v) { v = Neg(q) }>
})"),
                                       {})
                          .model;
  const Written found = write(model, uniform_plan(model, Scheme::kInt8Weights));
  EXPECT_TRUE(found.notes.empty());
  EXPECT_EQ(stored_bytes(found.model), kRows * kColumns);
}

TEST(SharedWeights, AreReadThroughTransposes) {
  const Model model = tied();
  const auto shared = shared_weights(model, GraphView(model));
  ASSERT_EQ(shared.size(), 1u);
  EXPECT_EQ(shared[0].name, "table");
  EXPECT_EQ(shared[0].readers, (std::vector<size_t>{0, 3}));
  EXPECT_EQ(groups(model)[0], (std::vector<LayerId>{"embed", "norm", "turn", "head"}));
}

TEST(SharedWeights, OfEveryUniformPlanAreStoredOnce) {
  const Model model = tied();
  for (auto [scheme, bytes] :
       {std::pair(Scheme::kInt8Weights, 1), {Scheme::kFloat16, 2}, {Scheme::kInt8Dynamic, 1}, {Scheme::kInt8, 1}}) {
    const auto [result, notes] = write(model, uniform_plan(model, scheme));
    EXPECT_EQ(stored_bytes(result), bytes * kRows * kColumns) << to_string(scheme);
    EXPECT_TRUE(notes.empty()) << to_string(scheme);
  }
  for (Int4Format format : {Int4Format::kMatMulNBits, Int4Format::kFolded}) {
    QuantizeOptions options;
    options.weight_only.int4_format = format;
    options.weight_only.int4_block_size = 32;
    EXPECT_EQ(stored_bytes(write(model, uniform_plan(model, Scheme::kInt4Weights), options).model),
              kRows * kColumns / 2)
        << to_string(format);
  }
}

TEST(SharedWeights, WhoReadsThemDifferentlyGetsTheFinestScheme) {
  const Model model = tied();
  const auto [alone, notes] = write(model, Plan{{{"embed", Scheme::kInt8Weights}}});
  EXPECT_EQ(stored_bytes(alone), 4 * kRows * kColumns);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("'embed' is written in float32, as 'head'"), std::string::npos) << notes[0];
  const auto mixed = write(model, Plan{{{"embed", Scheme::kInt4Weights}, {"head", Scheme::kInt8Weights}}});
  EXPECT_EQ(stored_bytes(mixed.model), kRows * kColumns);
  EXPECT_EQ(mixed.notes.size(), 1u);
  EXPECT_EQ(node(mixed.model, "turn")->inputs[0], "table_dequantized");
  EXPECT_EQ(node(mixed.model, "embed")->inputs[0], "table_dequantized");
  // Fields are part of the decision; of equal bits those of fewer fields count.
  Plan fields{{{"embed", Scheme::kInt8Weights}, {"head", Scheme::kInt8Weights}}};
  fields.options["embed"].block_size = 16;
  EXPECT_EQ(stored_bytes(write(model, fields).model), kRows * kColumns);
}

// Who computes on codes gains time by them: it keeps them, and what is left in float reads them.
TEST(SharedWeights, OperatorsOnCodesKeepTheirs) {
  Model model = with_table(R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[3,96] x, int64[3] ids) => (float[3,64] y, float[3,64] z) {
  [mul] y = MatMul(x, table)
  [embed] z = Gather(table, ids) })");
  const auto [result, notes] = write(model, Plan{{{"mul", Scheme::kInt8Dynamic}}});
  EXPECT_EQ(stored_bytes(result), kRows * kColumns);
  EXPECT_TRUE(notes.empty());
  EXPECT_NE(node(result, "mul_quant"), nullptr);
}

TEST(SharedWeights, AProductBehindATransposeTakesFewBitsByItself) {
  Model model = with_table(R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[3,64] x) => (float[3,96] y, float[3,96] z) {
  [turn] t = Transpose(table)
  [mul] y = MatMul(x, t)
  [gemm] z = Gemm<transB = 0>(x, t) })");
  const Model eight = write(model, uniform_plan(model, Scheme::kInt8Weights)).model;
  EXPECT_EQ(stored_bytes(eight), kRows * kColumns);
  EXPECT_EQ(eight.graph.initializer("table_scale")->dims(), (std::vector<int64_t>{kRows, 1}));  // a scale an output
  QuantizeOptions options;
  options.weight_only.int4_block_size = 32;
  const Model four = write(model, uniform_plan(model, Scheme::kInt4Weights), options).model;
  EXPECT_EQ(stored_bytes(four), kRows * kColumns / 2);
  EXPECT_EQ(node(four, "turn"), nullptr);
  EXPECT_EQ(node(four, "mul")->op_type, "MatMulNBits");
  EXPECT_EQ(node(four, "gemm")->op_type, "MatMulNBits");
}

// Whose rows are outputs in one layer and inputs in the other have no operator's layout in common.
TEST(SharedWeights, OfUnlikeLayoutsAreFolded) {
  Model model = with_table(R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[3,64] x) => (float[3,64] y, float[3,64] z) {
  [mul] y = MatMul(x, table)
  [gemm] z = Gemm<transB = 1>(x, table) })",
                           {kColumns, kColumns});
  QuantizeOptions options;
  options.weight_only.int4_block_size = 32;
  const Model result = write(model, uniform_plan(model, Scheme::kInt4Weights), options).model;
  EXPECT_EQ(stored_bytes(result), 0);  // 2,048 bytes of codes, and nothing larger
  EXPECT_EQ(node(result, "mul")->op_type, "MatMul");
  EXPECT_EQ(node(result, "mul")->inputs[1], node(result, "gemm")->inputs[1]);
}

TEST(SharedWeights, TiedOnesAreWidenedTo8Bits) {
  const Model model = tied();
  Plan plan = uniform_plan(model, Scheme::kInt4Weights);
  EXPECT_EQ(widen_tied_weights(plan, model).size(), 1u);
  EXPECT_EQ(plan.schemes.at("embed"), Scheme::kInt4Weights);
  EXPECT_EQ(plan.options.at("embed").bits, 8);
  EXPECT_EQ(plan.options.at("head").bits, 8);
  EXPECT_TRUE(widen_tied_weights(plan, model).empty());
  Plan eight = uniform_plan(model, Scheme::kInt8Weights);
  EXPECT_TRUE(widen_tied_weights(eight, model).empty());
  Plan asked = uniform_plan(model, {Scheme::kInt4Weights, {.bits = 4}});
  EXPECT_TRUE(widen_tied_weights(asked, model).empty());
  EXPECT_EQ(asked.options.at("head").bits, 4);
}

}  // namespace
}  // namespace seqto
