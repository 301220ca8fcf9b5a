#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "seqto/error.h"
#include "seqto/tune.h"

namespace seqto {
namespace {

namespace fs = std::filesystem;

class Digits : public testing::Test {
 protected:
  void SetUp() override {
    out_ = fs::temp_directory_path() / "seqto_predicted_latencies_test";
    fs::remove_all(out_);
  }
  void TearDown() override { fs::remove_all(out_); }

  TuneOptions options() const {
    TuneOptions o;
    const fs::path digits = fs::path(SEQTO_SOURCE_DIR) / "examples" / "digits";
    o.model = digits / "model.onnx";
    o.data = digits / "digits.npz";
    o.search.objectives = {"kl", "size", "latency"};
    o.schemes = {"int8", "int8_weights"};
    o.calibration_samples = 8;
    o.search_samples = 8;
    o.evaluation_samples = 16;
    o.max_evaluations = 12;
    o.correct_weights = false;
    o.jobs = 1;
    o.output = out_;
    return o;
  }
  bool noted(const std::string& what) const {
    std::stringstream text;
    text << std::ifstream(out_ / "study.jsonl").rdbuf();
    return text.str().find(what) != std::string::npos;
  }

  fs::path out_;
};

// Half of the plans timed, or few rounds of all, are no ground to go on from.
TEST_F(Digits, AnInterruptionWhilePlansAreTimedLeavesNoModelOfLatencies) {
  std::atomic<bool> cancelled = false;
  std::atomic<int> told = 0;
  Env env;
  env.progress = [&](const Progress& p) {
    if (p.note == "plans to predict latencies from" && ++told == 3) cancelled = true;
  };
  env.cancelled = [&] { return cancelled.load(); };
  try {
    tune(options(), env);
    FAIL() << "not interrupted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInterrupted);
  }
  ASSERT_TRUE(cancelled);
  EXPECT_TRUE(noted("\"published\""));
  EXPECT_FALSE(noted("latency model"));
  EXPECT_TRUE(fs::exists(out_ / "report.html"));

  const Summary summary = tune(options());  // goes on, and times them
  EXPECT_TRUE(noted("latency model"));
  EXPECT_GT(summary.trials.size(), 4u);
}

}  // namespace
}  // namespace seqto
