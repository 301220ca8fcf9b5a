// A sample alone and among others: which bits change, where that begins, and what the runtime's optimized kernels add.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "metrics/together.h"
#include "seqto/validate.h"

namespace seqto {
namespace {

namespace fs = std::filesystem;

// Adds 1 to all outputs of a batch.
class FaultySession : public Session {
 public:
  explicit FaultySession(std::unique_ptr<Session> inner) : inner_(std::move(inner)) {}
  std::vector<Tensor> run(std::span<const Tensor> inputs) override {
    std::vector<Tensor> outputs = inner_->run(inputs);
    if (inputs[0].dims()[0] == 1) return outputs;
    for (Tensor& t : outputs) {
      std::vector<float> values(t.values<float>().begin(), t.values<float>().end());
      for (float& v : values) v += 1;
      t = float_tensor(t.dims(), std::move(values));
    }
    return outputs;
  }
  const std::vector<std::string>& input_names() const override { return inner_->input_names(); }
  const std::vector<std::string>& output_names() const override { return inner_->output_names(); }

 private:
  std::unique_ptr<Session> inner_;
};

// The CPU, with a fault in the kernels that optimization brings in.
class FaultyOptimization : public Runner {
 public:
  std::unique_ptr<Session> load(const Model& model, const SessionOptions& options) override {
    EXPECT_EQ(options.optimization, SessionOptions::Optimization::kNone);
    return cpu_->load(model, options);
  }
  std::unique_ptr<Session> load_file(const std::string& path, const SessionOptions& options) override {
    return std::make_unique<FaultySession>(cpu_->load_file(path, options));
  }
  Model optimized(const Model& model) override { return cpu_->optimized(model); }
  std::string description() const override { return "faulty"; }

 private:
  std::unique_ptr<Runner> cpu_ = make_runner("cpu");
};

class Rows : public Dataset {
 public:
  int64_t size() const override { return 3; }
  bool has_labels() const override { return false; }
  std::string fingerprint() const override { return "rows"; }
  Sample read(int64_t index) const override {
    const auto size = static_cast<float>(index + 1);
    return {.inputs = {float_tensor({1, 2}, {size, -size})}, .name = std::to_string(index)};
  }
};

class InvarianceTest : public ::testing::Test {
 protected:
  ~InvarianceTest() override { fs::remove(file_); }

  Variation in_twos(const std::string& nodes, Runner& runner) {
    save_model(parse_model_text("<ir_version: 8, opset_import: [\"\" : 17]> g (float[n,2] x) => (float[n,2] y) {" +
                                nodes + "}"),
               file_);
    return find_variations({file_, &runner, &data_}, {.batches = {2}}).variations[0];
  }

  std::string file_ = fs::temp_directory_path() / ("seqto_invariance_" + std::to_string(::getpid()) + ".onnx");
  Rows data_;
};

TEST_F(InvarianceTest, BeginsAtTheFirstNodeThatSeesTheBatch) {
  const auto cpu = make_runner("cpu");
  const Variation v = in_twos("a = Abs(x) m = ReduceMax<keepdims = 0>(a) s = Shape(x) r = Div(x, m) y = Neg(r)", *cpu);
  EXPECT_EQ(v.changed, 1);  // the smaller of the two; the third is alone
  ASSERT_TRUE(v.first);
  EXPECT_EQ(v.first->op_type, "ReduceMax");
  EXPECT_EQ(v.first->tensor, "m");
  EXPECT_FALSE(v.first->node.empty()) << "nodes without names get one";
  EXPECT_EQ(v.first->sample, "0");
  EXPECT_EQ(v.first->max_abs, 1);
  EXPECT_EQ(v.first->largest_abs, 1);
}

TEST_F(InvarianceTest, WhatOptimizationBringsInHasNoNode) {
  FaultyOptimization runner;
  const Variation v = in_twos("y = Neg(x)", runner);
  EXPECT_EQ(v.changed, 2);
  EXPECT_EQ(v.max_abs, 1);
  EXPECT_FALSE(v.first);
}

TEST_F(InvarianceTest, ValuesThatAreNoNumbersAreTheWorst) {
  const auto cpu = make_runner("cpu");
  const Variation v = in_twos(
      "i = ReduceMax<keepdims = 0>(x) one = Constant<value_float = 1.0>() z = Sub(one, i) "
      "k = Sqrt(z) y = Mul(x, k)",
      *cpu);
  EXPECT_EQ(v.changed, 1);
  EXPECT_TRUE(std::isnan(v.max_abs));
  EXPECT_TRUE(std::isnan(v.worst_cosine));
  EXPECT_EQ(v.worst_sample, "0");
}

TEST(OwnPart, IsAtTheEndWhereTheFillingIsInFront) {
  const internal::Alone a{.name = "a", .positions = 2}, b{.name = "b", .positions = 3};
  const internal::Together run{{&a, &b}, 3, internal::Fill::kInFront};
  const Tensor rows = float_tensor({2, 3}, {0, 1, 2, 3, 4, 5}), flat = rows.reshaped({6, 1});
  const auto values = [](const std::optional<Tensor>& t) {
    return std::vector(t->values<float>().begin(), t->values<float>().end());
  };
  EXPECT_EQ(values(internal::own_part(rows, float_tensor({1, 2}, {0, 0}), run, 0)), (std::vector<float>{1, 2}));
  EXPECT_EQ(values(internal::own_part(rows, float_tensor({1, 3}, {0, 0, 0}), run, 1)), (std::vector<float>{3, 4, 5}));
  EXPECT_EQ(values(internal::own_part(flat, float_tensor({2, 1}, {0, 0}), run, 0)), (std::vector<float>{1, 2}))
      << "the positions of all samples, one after the other";
  EXPECT_FALSE(internal::own_part(rows, float_tensor({3, 2}, {0, 0, 0, 0, 0, 0}), run, 0)) << "turned";
  const Tensor scale = float_tensor({}, {7});
  EXPECT_EQ(values(internal::own_part(scale, scale, run, 0)), std::vector<float>{7}) << "of all samples";
}

TEST(DifferenceOf, Literals) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const auto difference = [](std::vector<float> a, std::vector<float> b) {
    return internal::difference_of(float_tensor({2}, std::move(a)), float_tensor({2}, std::move(b)));
  };
  EXPECT_FALSE(difference({1, nan}, {1, nan}));
  EXPECT_EQ(difference({0, 1}, {-0.0F, 1})->max_abs, 0) << "other bits all the same";
  EXPECT_EQ(difference({inf, 1}, {inf, 3})->max_abs, 2);
  EXPECT_EQ(difference({inf, 1}, {inf, 3})->largest_abs, 1);
  EXPECT_TRUE(std::isnan(difference({5, 1}, {9, nan})->max_abs));
  EXPECT_NEAR(difference({3, 0}, {3, 3})->cosine, std::sqrt(0.5), 1e-12);
}

}  // namespace
}  // namespace seqto
