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
