// Models that a rewriting must not change the function of: weights from a fixed sequence, samples, outputs compared.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "seqto/dataset.h"
#include "seqto/model.h"
#include "seqto/runner.h"

namespace seqto::testing_rewrites {

inline constexpr int64_t kSamples = 6, kChannels = 4, kSide = 5;

// Repeatable values in -1 .. 1, the channels of axis 0 of very different size.
inline std::vector<float> values(int64_t rows, int64_t columns, uint32_t seed) {
  std::vector<float> result;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      seed = seed * 1664525u + 1013904223u;
      result.push_back((static_cast<float>(seed >> 8) / 8388608.0f - 1.0f) * std::pow(0.3f, static_cast<float>(r % 4)));
    }
  return result;
}

// The text's graph with weights and biases w0, b0, w1, w2, b2, w3 for four channels and three classes.
inline Model with_weights(const char* text) {
  Model model = parse_model_text(text);
  auto add = [&](const char* name, std::vector<int64_t> dims, uint32_t seed) {
    int64_t columns = 1;
    for (size_t d = 1; d < dims.size(); ++d) columns *= dims[d];
    model.graph.initializers.push_back({name, float_tensor(dims, values(dims[0], columns, seed))});
  };
  add("w0", {4, 4, 3, 3}, 1);
  add("b0", {4}, 2);
  add("w1", {4, 1, 3, 3}, 3);
  add("w2", {4, 4, 1, 1}, 4);
  add("b2", {4}, 5);
  add("w3", {4, 3}, 6);
  name_nodes(model);
  return infer_shapes(model);
}

// Six samples of x, float[1,4,5,5].
class RewriteTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::temp_directory_path() /
            (std::string("seqto_rewrite_") + test->test_suite_name() + "_" + test->name() + ".npz");
    std::vector<Initializer> arrays{
        {"x", float_tensor({kSamples, kChannels, kSide, kSide}, values(kSamples, kChannels * kSide * kSide, 9))}};
    save_npz(path_, arrays);
  }
  void TearDown() override { std::filesystem::remove(path_); }

  const Dataset& data(const Model& model) {
    data_ = open_dataset(path_, model.graph.free_inputs());
    return *data_;
  }
  std::vector<std::vector<float>> outputs(const Model& model) {
    data(model);
    auto session = runner_->load(model, {SessionOptions::Optimization::kNone});
    std::vector<std::vector<float>> result;
    for (int64_t i : samples_) {
      auto y = session->run(data_->read(i).inputs);
      result.emplace_back(y[0].values<float>().begin(), y[0].values<float>().end());
    }
    return result;
  }
  void expect_same(const Model& a, const Model& b) {
    auto x = outputs(a), y = outputs(b);
    for (size_t s = 0; s < x.size(); ++s)
      for (size_t c = 0; c < x[s].size(); ++c) EXPECT_NEAR(x[s][c], y[s][c], 1e-5 * (1 + std::abs(x[s][c])));
  }

  std::filesystem::path path_;
  std::unique_ptr<Dataset> data_;
  std::unique_ptr<Runner> runner_ = make_runner("cpu");
  std::vector<int64_t> samples_{0, 1, 2, 3, 4, 5};
};

}  // namespace seqto::testing_rewrites
