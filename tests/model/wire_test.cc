// Models read without copying their weights: the same values, at any address, and a broken file is still named.
#include "model/wire.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/files.h"
#include "model/varint.h"
#include "seqto/error.h"
#include "seqto/model.h"

namespace seqto {
namespace {

class Wire : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path / "m.onnx";

  // `name` is as long as is needed to move the weights by a byte.
  static Model with_big_weight(const std::string& name) {
    Model model = parse_model_text(R"(
      <ir_version: 8, opset_import: ["" : 17]>
      g (float[1,2] x) => (float[1,2] y) <float[2] b = {1,2}> { y = Add(x, b) })");
    std::vector<float> values(5000);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 0.5f;
    model.graph.initializers.push_back({name, float_tensor({5000}, std::move(values))});
    return model;
  }
};

TEST_F(Wire, ValuesAreRightAtEveryAddress) {
  int odd = 0;
  for (const char* name : {"w", "ww", "www", "wwww"}) {
    Model model = with_big_weight(name);
    save_model(model, path_);
    Model read = load_model(path_);
    EXPECT_TRUE(equal(read, model));
    const Tensor& weight = *read.graph.initializer(name);
    odd += reinterpret_cast<uintptr_t>(weight.bytes().data()) % alignof(float) != 0;
    auto values = weight.values<float>();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(values.data()) % alignof(float), 0u);
    EXPECT_EQ(values[4999], 2499.5f);
    // One copy serves all.
    EXPECT_EQ(Tensor(weight).values<float>().data(), values.data());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(weight.aligned().bytes().data()) % alignof(float), 0u);
    EXPECT_TRUE(weight.aligned().equals(weight));
    weight.release();
    EXPECT_EQ(weight.reshaped({50, 100}).values<float>()[4999], 2499.5f);
    EXPECT_TRUE(equal(read, model));
  }
  EXPECT_EQ(odd, 3) << "one byte more each time: three of four addresses are odd";
}

TEST_F(Wire, TheFileMayBeReplacedWhileItIsRead) {
  save_model(with_big_weight("w"), path_);
  Model read = load_model(path_);
  save_model(parse_model_text(R"(<ir_version: 8, opset_import: ["" : 17]>
      g (float[1] x) => (float[1] y) { y = Relu(x) })"),
             path_);
  EXPECT_EQ(read.graph.initializer("w")->values<float>()[2], 1.0f);
  save_model(read, path_);
  EXPECT_TRUE(equal(load_model(path_), read));
}

TEST_F(Wire, WhatIsLeftOutIsWhatIsBig) {
  std::string bytes = serialize(with_big_weight("w"));
  auto light = internal::without_weights(bytes);
  ASSERT_TRUE(light);
  EXPECT_LT(light->bytes.size(), 1000u);
  ASSERT_EQ(light->raw_data.size(), 2u);
  EXPECT_EQ(light->raw_data[0].data(), nullptr);
  EXPECT_EQ(light->raw_data[1].size(), 20000u);
}

TEST_F(Wire, EveryTruncationIsRefused) {
  std::string bytes = serialize(with_big_weight("w"));
  for (size_t n : {size_t{0}, size_t{1}, size_t{2}, size_t{10}, size_t{100}, size_t{200}, size_t{3000},
                   bytes.size() - 20001, bytes.size() - 1}) {
    std::ofstream(path_, std::ios::binary) << bytes.substr(0, n);
    EXPECT_THROW(load_model(path_), Error) << n;
  }
}

TEST_F(Wire, VarintsEndWhereTheBytesEnd) {
  for (uint64_t value : {uint64_t{0}, uint64_t{127}, uint64_t{128}, uint64_t{1} << 35, ~uint64_t{0}}) {
    std::string text;
    internal::put_varint(text, value);
    EXPECT_EQ(text.size(), internal::varint_size(value));
    std::string_view view = text;
    EXPECT_EQ(internal::get_varint(view), value);
    EXPECT_TRUE(view.empty());
    std::string_view cut(text.data(), text.size() - 1);
    EXPECT_EQ(internal::get_varint(cut), std::nullopt);
  }
}

TEST_F(Wire, TheCheckerAndTheConverterSeeBigWeights) {
  Model model = parse_model_text(R"(
      <ir_version: 7, opset_import: ["" : 11]>
      g (float[1,200] x) => (float[1,200] y) { y = MatMul(x, w) })");
  std::vector<float> values(200 * 200, 0.25f);
  model.graph.initializers.push_back({"w", float_tensor({200, 200}, std::move(values))});
  EXPECT_NO_THROW(check_model(model));
  Model newer = convert_opset(model, 17);
  EXPECT_EQ(newer.opset(), 17);
  EXPECT_TRUE(newer.graph.initializer("w")->equals(*model.graph.initializer("w")));
  model.graph.nodes[0].inputs[1] = "missing";
  EXPECT_THROW(check_model(model), Error);
}

}  // namespace
}  // namespace seqto
