#include <gtest/gtest.h>

#include <filesystem>

#include "runner/onnxruntime_runner.h"
#include "seqto/error.h"
#include "seqto/runner.h"

namespace seqto {
namespace {

Model doubler() {
  return parse_model_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,600] x) => (float[1,600] y, float[600] w) <float[1] two = {2}> {
      w = Mul(big, two)
      y = Add(x, big)
    })");
}

Model with_big_weight() {
  Model model = doubler();
  std::vector<float> values(600);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  model.graph.initializers.push_back({"big", float_tensor({600}, std::move(values))});
  return model;
}

TEST(OnnxruntimeRunner, WeightsFromMemoryGiveWhatTheFileGives) {
  auto runner = make_runner("cpu");
  Model model = with_big_weight();
  auto path = std::filesystem::temp_directory_path() / "seqto_runner_test.onnx";
  save_model(model, path);
  std::vector<Tensor> inputs{float_tensor({1, 600}, std::vector<float>(600, 0.5f))};
  auto from_memory = runner->load(model)->run(inputs);
  auto from_file = runner->load_file(path.string())->run(inputs);
  ASSERT_EQ(from_memory.size(), 2u);
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(from_memory[i].equals(from_file[i]));
  EXPECT_EQ(from_memory[0].values<float>()[599], 599.5f);
  EXPECT_EQ(from_memory[1].values<float>()[599], 1198.0f);
  std::filesystem::remove(path);
}

// Words of four rows, and positions of three where the model counts them itself.
std::string token_error(const std::string& body, const std::vector<int64_t>& ids) {
  const Model model = parse_model_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (int64[1,n] input_ids) => (float[1,n,1] y) <float[4,1] words = {1, 2, 3, 4}, float[1,3,1] places = {1, 2, 3},
      float[3,1] place_rows = {1, 2, 3}, int64[1] minus = {-1}, int64 one = {1}> {)" +
                                       body + "}");
  const auto runner = make_runner("cpu");
  const auto session = runner->load(model);
  const std::vector<Tensor> inputs{int64_tensor({1, std::ssize(ids)}, ids)};
  try {
    session->run(inputs);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(OnnxruntimeRunner, SaysWhichTokenIsInNoTable) {
  const std::string words = "y = Gather(words, input_ids)";
  EXPECT_NE(token_error(words, {0, 297})
                .find("[run] the token 297 of 'input_ids' and a table of 4 rows found; tokens "
                      "from 0 to 3 expected; give the tokenizer of this model"),
            std::string::npos);
  EXPECT_EQ(token_error(words, {0, 3, 3, 3, 3}), "");
}

TEST(OnnxruntimeRunner, SaysThatATextIsLongerThanItsPositions) {
  const std::string counted = R"(e = Gather(words, input_ids) o = Mul(input_ids, minus) z = Div(o, minus)
    f = Min(z, one) p = CumSum(f, one) q = Add(p, minus) r = Gather(place_rows, q) y = Add(e, r))";
  EXPECT_EQ(token_error(counted, {1, 1, 1}), "");
  EXPECT_NE(token_error(counted, {1, 1, 3, 1, 1}).find("[run] 5 tokens and a table of 3 positions found"),
            std::string::npos);
  const std::string added = "e = Gather(words, input_ids) y = Add(e, places)";
  EXPECT_NE(token_error(added, {1, 1, 1, 1}).find("[run] 4 tokens found; where the model's table of positions"),
            std::string::npos);
  EXPECT_NE(token_error(added, {1, 1, 1, 1}).find("give a smaller --length"), std::string::npos);
}

TEST(OnnxruntimeRunner, OutputsOutliveTheSession) {
  auto runner = make_runner("cpu");
  std::vector<Tensor> inputs{float_tensor({1, 600}, std::vector<float>(600, 1.0f))};
  Tensor kept;
  {
    auto session = runner->load(with_big_weight());
    EXPECT_EQ(session->input_names(), std::vector<std::string>{"x"});
    kept = session->run(inputs)[0];
  }
  EXPECT_EQ(kept.values<float>()[1], 2.0f);
}

TEST(OnnxruntimeRunner, OutputsThatAreConstantsOutliveTheSession) {
  auto runner = make_runner("cpu");
  std::vector<Tensor> inputs{float_tensor({1, 600}, std::vector<float>(600, 1.0f))};
  Model model = with_big_weight();
  model.graph.outputs.push_back({"big", DataType::kFloat, {}, {}});
  const auto* weight = model.graph.initializer("big");
  ASSERT_TRUE(weight);
  auto session = runner->load(model);
  const std::vector<Tensor> kept = session->run(inputs);
  EXPECT_NE(kept.at(1).bytes().data(), weight->bytes().data());
}

TEST(OnnxruntimeRunner, WhatItDoesNotTakeIsAnError) {
  auto runner = make_runner("cpu");
  EXPECT_THROW(runner->load(doubler()), Error);  // `big` is nowhere
  EXPECT_THROW(runner->load_file("/nowhere.onnx"), Error);
  auto session = runner->load(with_big_weight());
  EXPECT_THROW(session->run({}), Error);
  std::vector<Tensor> wrong{float_tensor({1, 2}, {1, 2})};
  EXPECT_THROW(session->run(wrong), Error);
}

TEST(MakeRunner, UnknownDeviceOrLibraryIsUnavailable) {
  for (auto [device, library] : {std::pair{"toaster", ""}, {"cpu", "/nowhere/libonnxruntime.so"}}) {
    try {
      make_runner(device, {.threads = 1, .library = library});
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kUnavailable);
    }
  }
}

TEST(FindOnnxruntime, ANamedLibraryIsTheOnlyCandidate) {
  EXPECT_EQ(internal::onnxruntime_candidates("/mine.so", "/built-in.so"), std::vector<std::string>{"/mine.so"});
}

}  // namespace
}  // namespace seqto
