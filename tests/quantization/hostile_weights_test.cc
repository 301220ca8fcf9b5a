// Weights that no tool writes: each was a division by zero or a read past the end.
#include <gtest/gtest.h>

#include "quantization/arithmetic/fold_constant.h"
#include "quantization/arithmetic/stored_weights.h"
#include "seqto/error.h"
#include "seqto/improve.h"
#include "seqto/prepare.h"
#include "seqto/quantize.h"

namespace seqto {
namespace {

Node nbits(int64_t k, int64_t n, int64_t bits, int64_t block) {
  Node node{"mm", "MatMulNBits", "com.microsoft", {}, {}, {}, {}};
  for (const auto& [name, value] : {std::pair{"K", k}, {"N", n}, {"bits", bits}, {"block_size", block}})
    node.set_attribute({name, value});
  return node;
}

Tensor bytes(std::vector<int64_t> dims, size_t count) {
  return Tensor::from(DataType::kUint8, std::move(dims), std::vector<uint8_t>(count, 0x88));
}

TEST(HostileWeights, MatMulNBitsOfImpossibleSizes) {
  const Tensor packed = bytes({2, 1, 8}, 16), scales = float_tensor({2}, {1, 1});
  EXPECT_EQ(internal::unpacked_nbits(nbits(16, 2, 4, 16), packed, scales, nullptr).dims(),
            (std::vector<int64_t>{16, 2}));
  constexpr int64_t kHuge = int64_t{1} << 62;
  for (const Node& node : {nbits(16, 2, 0, 16), nbits(16, 2, 3, 16), nbits(16, 2, 16, 16), nbits(16, 2, -4, 16),
                           nbits(16, 2, 4, 0), nbits(16, 2, 4, -16), nbits(0, 2, 4, 16), nbits(16, -1, 4, 16),
                           nbits(kHuge, kHuge, 4, 16), nbits(16, 4, 4, 16), nbits(64, 2, 4, 16), nbits(16, 2, 8, 16)})
    EXPECT_THROW(internal::unpacked_nbits(node, packed, scales, nullptr), Error) << node.int_attribute("bits", 0);
  const Tensor none = bytes({0}, 0);
  EXPECT_THROW(internal::unpacked_nbits(nbits(16, 2, 4, 16), packed, scales, &none), Error);
  EXPECT_THROW(internal::unpacked_nbits(nbits(16, 2, 4, 16), packed, float_tensor({0}, {}), nullptr), Error);
}

TEST(HostileWeights, ScalesThatDoNotFitTheirAxis) {
  const Tensor codes = bytes({2, 3}, 6), two = float_tensor({2}, {1, 1}), none = float_tensor({0}, {});
  EXPECT_EQ(internal::dequantized(codes, {&two, nullptr, 0, 0}).dims(), codes.dims());
  EXPECT_THROW(internal::dequantized(codes, {&two, nullptr, 1, 0}), Error);
  EXPECT_THROW(internal::dequantized(codes, {&two, nullptr, 7, 0}), Error);
  EXPECT_THROW(internal::dequantized(codes, {&two, nullptr, -3, 0}), Error);
  EXPECT_THROW(internal::dequantized(codes, {&none, nullptr, 0, 0}), Error);
  const Tensor zeros = bytes({3}, 3);
  EXPECT_THROW(internal::dequantized(bytes({4, 3}, 12), {&two, nullptr, 0, 1}), Error);
  const Tensor four = float_tensor({4}, {1, 1, 1, 1});
  EXPECT_THROW(internal::dequantized(bytes({4, 3}, 12), {&four, &zeros, 0, 0}), Error);
}

Model chain() {
  Model model = infer_shapes(parse_model_text(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[2,4] x) => (float[2,4] y) <float[4,0] w = {}, float[0,4] v = {}, float[4] b = {1, 2, 3, 4}> {
      a = Gemm(x, w) r = Relu(a) y = Gemm(r, v, b) })"));
  name_nodes(model);
  return model;
}

TEST(HostileWeights, LayersThatReadNothingStayFloat) {
  const Model model = chain();
  for (const Layer& layer : layers(model)) {
    if (layer.op_type != "Gemm") continue;
    EXPECT_FALSE(layer.quantizable);
    EXPECT_NE(layer.reason.find("no elements"), std::string::npos) << layer.reason;
  }
  const Ranges ranges{{"x", {-1, 1}}, {"a", {-1, 1}}, {"r", {0, 1}}, {"y", {-1, 1}}};
  for (Scheme scheme : {Scheme::kInt8, Scheme::kInt8Dynamic, Scheme::kInt8Weights, Scheme::kInt4Weights})
    for (bool per_channel : {false, true}) {
      QuantizeOptions options;
      options.per_channel = per_channel;
      Quantizer quantizer(model, ranges, options);
      const Model result = quantizer.quantize_excluding({}, scheme);
      EXPECT_TRUE(result.graph.initializer("w")) << to_string(scheme);
    }
}

TEST(HostileWeights, FoldingTakesWhatFits) {
  const Tensor values = float_tensor({2, 3}, {1, 2, 3, 4, 5, 6});
  auto fold = [&](Node node, std::vector<const Tensor*> inputs) { return internal::fold_constant(node, inputs); };
  const Tensor wrong = int64_tensor({2}, {4, 4}), axis = int64_tensor({1}, {5}), one = int64_tensor({1}, {1});
  EXPECT_FALSE(fold({"r", "Reshape", "", {}, {}, {}, {}}, {&values, &wrong}));
  EXPECT_FALSE(fold({"s", "Slice", "", {}, {}, {}, {}}, {&values, &one, &one, &axis}));
  EXPECT_FALSE(fold({"m", "Mul", "", {}, {}, {}, {}}, {&values}));
  for (std::vector<int64_t> perm : {std::vector<int64_t>{0, 7}, {0}, {1, 1}}) {
    Node transpose{"t", "Transpose", "", {}, {}, {}, {}};
    transpose.set_attribute({"perm", perm});
    EXPECT_FALSE(fold(transpose, {&values})) << perm.size();
  }
  const Tensor row = float_tensor({3}, {1, 2, 3}), scalar = float_tensor({}, {1});
  EXPECT_FALSE(fold({"c", "Concat", "", {}, {}, {}, {}}, {&scalar, &row}));
  EXPECT_TRUE(fold({"c", "Concat", "", {}, {}, {}, {}}, {&row, &row}));
}

}  // namespace
}  // namespace seqto
