// Overrides of single tensors: every entry is examined before anything is quantized; options as JSON and back.
#include <gtest/gtest.h>

#include "seqto/error.h"
#include "seqto/quantize.h"

namespace seqto {
namespace {

Model gemm() {
  return infer_shapes(parse_model_text(R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[1,2] x) => (float[1,2] y) <float[2,2] w = {1.0, -2.0, 3.0, 4.0}> {
  [mul] y = Gemm(x, w)
})"));
}

std::string refusal(const std::string& overrides) {
  QuantizeOptions options;
  options.tensor_overrides = tensor_overrides_from_json(overrides);
  try {
    Quantizer quantizer(gemm(), {{"x", {-1, 1}}, {"y", {-1, 1}}}, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Overrides, EveryEntryIsExamined) {
  // onnxruntime looks at the first entry that is not empty alone; here that one is correct each time.
  const std::string first = R"({"w": [{"symmetric": true}], )";
  EXPECT_EQ(refusal(first + R"("x": [{"quant_type": "QUInt8"}]})"), "");
  for (auto [entry, words] : std::vector<std::pair<std::string, std::string>>{
           {R"("x": [{"scale": 0.5}]})", "belong together"},
           {R"("x": [{"scale": 0.5, "zero_point": 0, "rmax": 1}]})", "only one way"},
           {R"("x": [{"scale": -1, "zero_point": 0}]})", "not positive"},
           {R"("x": [{"scale": 1, "zero_point": 300}]})", "outside of int8"},
           {R"("x": [{"reduce_range": true}]})", "initializers only"},
           {R"("x": [{"axis": 0}]})", "only initializers have channels"},
           {R"("x": [{"convert": {}}]})", "no quant_type"},
           {R"("x": [{"convert": {"quant_type": "int8"}}]})", "has already"},
           {R"("nothing": [{}]})", "no such tensor"}})
    EXPECT_NE(refusal(first + entry).find(words), std::string::npos) << entry << refusal(first + entry);
}

TEST(Overrides, ChannelsAgree) {
  for (auto [entries, words] : std::vector<std::pair<std::string, std::string>>{
           {R"([{"axis": 2}])", "the rank is 2"},
           {R"([{"axis": 0}, {}, {}])", "one or 2 expected"},
           {R"([{"axis": 0, "symmetric": true}, {"symmetric": false}])", "differ between channels"},
           {R"([{"axis": 0, "scale": 1, "zero_point": 0}, {}])", "only some channels have scale"},
           {R"([{"axis": 0, "rmin": -1, "rmax": 1}, {}])", "only some channels have rmin"},
           {R"([{"axis": 0, "convert": {"quant_type": "uint8"}}])", "activations only"}}) {
    std::string found = refusal(R"({"w": )" + entries + "}");
    EXPECT_NE(found.find(words), std::string::npos) << entries << ": " << found;
  }
  EXPECT_THROW(tensor_overrides_from_json(R"({"w": [{"scales": 1}]})"), Error);
  EXPECT_THROW(tensor_overrides_from_json(R"({"w": {"scale": 1}})"), Error);
}

TEST(Overrides, OptionsGoThroughJson) {
  QuantizeOptions options;
  options.activation_type = DataType::kUint16;
  options.weight_type = DataType::kInt4;
  options.symmetric_weights = false;
  options.min_real_range = 0.25f;
  options.block_size = 32;
  options.op_type_per_channel_axis = {{"MatMul", -1}};
  options.tensor_overrides = tensor_overrides_from_json(
      R"({"w": [{"axis": 1, "rmin": -1, "rmax": 2}], "x": [{"convert": {"quant_type": "QUInt8", "recv_nodes": ["mul"]}}]})");
  std::string text = quantize_options_to_json(options);
  EXPECT_EQ(quantize_options_to_json(quantize_options_from_json(text)), text);
  EXPECT_NE(text, quantize_options_to_json({}));
  EXPECT_EQ(quantize_options_from_json(text).tensor_overrides.at("x")[0].convert->recv_nodes,
            (std::set<std::string>{"mul"}));
}

}  // namespace
}  // namespace seqto
