#include <fmt/format.h>
#include <gtest/gtest.h>

#include "seqto/error.h"
#include "seqto/model.h"

namespace seqto {
namespace {

Model of_node(const std::string& op_type, size_t inputs, int rank, const std::string& domain = "com.microsoft") {
  Model model;
  model.opsets = {{"", 16}, {"com.microsoft", 1}};
  Node node{"node", op_type, domain, {}, {"a", "b", "c", "d"}, {}, {}};
  for (size_t i = 0; i < inputs; ++i) {
    const std::string name = fmt::format("x{}", i);
    ValueInfo info{name, DataType::kFloat, {}, {}};
    if (rank >= 0) info.shape.emplace(static_cast<size_t>(rank), Dimension{3, ""});
    model.graph.inputs.push_back(info);
    node.inputs.push_back(name);
  }
  model.graph.nodes = {node};
  return model;
}

// Whatever a file holds: inference says less, and never ends the program.
TEST(ShapeRegistry, AnyInputsOfAnyRank) {
  for (const char* op : {"Attention",
                         "BiasAdd",
                         "BiasSplitGelu",
                         "DecoderMaskedMultiHeadAttention",
                         "DequantizeLinear",
                         "DynamicQuantizeLSTM",
                         "DynamicQuantizeMatMul",
                         "EmbedLayerNormalization",
                         "FusedConv",
                         "FusedGemm",
                         "FusedMatMul",
                         "GatherBlockQuantized",
                         "Gelu",
                         "GroupQueryAttention",
                         "MatMulIntegerToFloat",
                         "MatMulNBits",
                         "MultiHeadAttention",
                         "NhwcConv",
                         "NhwcMaxPool",
                         "QAttention",
                         "QEmbedLayerNormalization",
                         "QGemm",
                         "QLinearAdd",
                         "QLinearAveragePool",
                         "QLinearConcat",
                         "QLinearConv",
                         "QLinearGlobalAveragePool",
                         "QLinearSoftmax",
                         "QLinearWhere",
                         "QuantizeLinear",
                         "SimplifiedLayerNormalization",
                         "SkipLayerNormalization"})
    for (size_t inputs = 0; inputs <= 10; ++inputs)
      for (int rank = -1; rank <= 5; ++rank) {
        Model model = of_node(op, inputs, rank);
        EXPECT_NO_THROW(infer_shapes(model)) << op << inputs << rank;
        Node& node = model.graph.nodes[0];
        node.attributes = {{"num_heads", int64_t{-3}},  {"kv_num_heads", int64_t{0}}, {"N", int64_t{-1}},
                           {"axis", int64_t{99}},       {"bits", int64_t{0}},         {"transA", int64_t{1}},
                           {"transBatchA", int64_t{1}}, {"channels_last", int64_t{1}}};
        EXPECT_NO_THROW(infer_shapes(model)) << op << inputs << rank;
      }
}

TEST(ShapeRegistry, ADomainThatIsNotImportedEndsInferenceAlone) {
  Model model = of_node("Gelu", 1, 2);
  model.opsets.pop_back();
  EXPECT_NO_THROW(infer_shapes(model));
}

Model checked(const std::string& op_type, const std::string& domain, int64_t opset) {
  Model model = of_node(op_type, 3, 2, domain);
  model.ir_version = 8;
  model.opsets[0].version = opset;
  model.graph.name = "g";
  model.graph.outputs = {{"a", DataType::kFloat, std::vector<Dimension>(2), {}}};
  model.graph.nodes[0].outputs = {"a"};
  return model;
}

TEST(ShapeRegistry, TheCheckerSeesNoMoreThanBefore) {
  EXPECT_NO_THROW(check_model(checked("Attention", "com.microsoft", 16))) << "attributes are missing: not its business";
  EXPECT_NO_THROW(check_model(checked("OfNobody", "com.microsoft", 16)));
  EXPECT_THROW(check_model(checked("OfNobody", "", 16)), Error);
}

TEST(ShapeRegistry, NormalizationsInOnnxsDomainBelongToTheRuntimeBelowOpset17) {
  for (const char* op : {"LayerNormalization", "SimplifiedLayerNormalization"}) {
    EXPECT_NO_THROW(check_model(checked(op, "", 13)));
    const Model inferred = infer_shapes(checked(op, "", 13));
    ASSERT_TRUE(inferred.graph.outputs[0].shape);
    EXPECT_EQ(inferred.graph.outputs[0].shape->at(1).value, 3);
  }
  EXPECT_NO_THROW(check_model(checked("LayerNormalization", "", 17)));
}

}  // namespace
}  // namespace seqto
