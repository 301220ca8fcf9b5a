#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "orchestrator/study/notes.h"
#include "seqto/error.h"
#include "seqto/tune.h"

namespace seqto {
namespace {

namespace fs = std::filesystem;
using namespace internal;

class CompareStudies : public testing::Test {
 protected:
  void SetUp() override { fs::remove_all(dir_); }
  void TearDown() override { fs::remove_all(dir_); }

  static StudyHeader header() {
    return {.model_path = "net.onnx",
            .model_sha256 = "abc",
            .model_size_bytes = 1000,
            .data_fingerprint = "data",
            .options_json = R"({"strategy": "chain", "calibration": {"method": "minmax"}})",
            .environment_json = R"({"cpu": "one", "threads": 1})",
            .calibration_samples = 8,
            .evaluation_samples = 16};
  }

  struct Candidate {
    std::string id;
    int64_t size_bytes;
    double kl;
    Scheme second;
  };

  fs::path study(const std::string& name, const StudyHeader& header, const std::vector<Candidate>& candidates) {
    fs::create_directories(dir_ / name);
    Study study = Study::open(dir_ / name / "study.jsonl", header);
    notes::kLayers.add(study, {{.id = "a", .op_type = "Conv", .quantizable = true},
                               {.id = "b", .op_type = "Conv", .quantizable = true}});
    for (const Candidate& c : candidates) {
      Trial t;
      t.id = c.id;
      t.plan.schemes = {{"a", Scheme::kInt8}, {"b", c.second}};
      t.measurement.emplace();
      t.measurement->size_bytes = c.size_bytes;
      t.measurement->losses.kl = c.kl;
      t.measurement->losses.top1_disagreement = c.kl > 0.25 ? 1 : 0;
      study.append(t);
    }
    return dir_ / name;
  }

  std::vector<Candidate> with(std::vector<Candidate> more) {
    more.insert(more.begin(), {{"float", 1000, 0, Scheme::kFloat32}, {"full", 250, 1.0, Scheme::kInt8}});
    return more;
  }

  fs::path dir_ = fs::temp_directory_path() /
                  (std::string("seqto_compare_") + testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(CompareStudies, FrontsLayersAndWhatDiffers) {
  auto other = header();
  other.options_json = R"({"strategy": "incremental", "calibration": {"method": "minmax"}})";
  const auto a =
      study("a", header(), with({{"middle", 300, 0.2, Scheme::kFloat16}, {"good", 500, 0.1, Scheme::kInt8}}));
  const auto b = study("b", other, with({{"middle", 300, 0.3, Scheme::kInt8}, {"best", 400, 0.1, Scheme::kInt8}}));
  const Comparison c = compare_studies({a, b});
  EXPECT_TRUE(c.warnings.empty());
  EXPECT_EQ(c.objectives, (std::vector<std::string>{"kl", "size"}));
  // b's 400 bytes beat a's 500 at the same loss, a's 300 bytes beat b's; the fully quantized models are equal.
  EXPECT_EQ(c.studies[0].leading, (std::vector<std::string>{"full", "middle"}));
  EXPECT_EQ(c.studies[1].leading, (std::vector<std::string>{"full", "best"}));
  ASSERT_EQ(c.options.size(), 1u);
  EXPECT_EQ(c.options[0].key, "strategy");
  EXPECT_EQ(c.options[0].values, (std::vector<std::string>{"chain", "incremental"}));
  EXPECT_TRUE(c.environment.empty());
  ASSERT_EQ(c.layers.size(), 1u);  // a selects its "middle", where b is float16
  EXPECT_EQ(c.layers[0].layer, "b");
  EXPECT_EQ(c.layers[0].schemes.front(), "float16");

  write_comparison(c, dir_ / "out");
  EXPECT_NE(read_file(dir_ / "out" / "plots" / "fronts.svg").find("<path"), std::string::npos);
  const auto json = nlohmann::json::parse(read_file(dir_ / "out" / "comparison.json"));
  EXPECT_EQ(json["studies"][1]["leading"].size(), 2u);
  EXPECT_EQ(json["layers"][0]["schemes"][0], "float16");
  EXPECT_NE(comparison_text(c).find("2 of 3 of a, 2 of 3 of b"), std::string::npos) << comparison_text(c);
}

TEST_F(CompareStudies, SaysWhyFiguresCannotBeCompared) {
  auto other = header();
  other.model_sha256 = "def";
  other.model_path = "other.onnx";
  other.evaluation_samples = 20;
  other.environment_json = R"({"cpu": "two", "threads": 1})";
  const auto a = study("x/same", header(), with({})), b = study("y/same", other, with({}));
  const Comparison c = compare_studies({a, b});
  ASSERT_EQ(c.warnings.size(), 3u);
  EXPECT_NE(c.warnings[0].find("different models: "), std::string::npos);
  EXPECT_NE(c.warnings[0].find("other.onnx"), std::string::npos);
  EXPECT_NE(c.warnings[1].find("20 samples"), std::string::npos);
  EXPECT_NE(c.warnings[2].find("processors"), std::string::npos);
  EXPECT_EQ(c.studies[0].name, a.string());  // two folders are called "same"
  ASSERT_EQ(c.environment.size(), 1u);
  EXPECT_EQ(c.environment[0].key, "cpu");
  EXPECT_NE(comparison_text(c).find("Mind: the studies are of different models"), std::string::npos);
}

TEST_F(CompareStudies, SeedsThatMixTheSamplesMakeOthersOfThem) {
  const auto with_options = [&](const char* name, const char* options) {
    StudyHeader changed = header();
    changed.options_json = options;
    return study(name, changed, with({}));
  };
  const auto a = with_options("a", R"({"sample_order": "mixed"})"),
             b = with_options("b", R"({"sample_order": "mixed", "seed": 2})"), c = with_options("c", R"({"seed": 2})"),
             d = with_options("d", "{}");
  EXPECT_EQ(compare_studies({a, b}).warnings.size(), 1u);
  EXPECT_EQ(compare_studies({a, d}).warnings.size(), 1u);
  EXPECT_TRUE(compare_studies({c, d}).warnings.empty()) << "a seed of the strategy alone";
}

TEST_F(CompareStudies, AFigureThatOneStudyLacksIsNoneToCompareIn) {
  const auto by_top1 = [&](const std::string& name) {
    const fs::path dir = dir_ / name;
    fs::create_directories(dir);
    Study study = Study::open(dir / "study.jsonl", header());
    for (const Candidate& c : with({{"middle", 300, 0.2, Scheme::kInt8}})) {
      Trial t{.id = c.id};
      t.measurement = {.size_bytes = c.size_bytes, .losses = {.kl = c.kl}, .metrics = {{"top1", 1 - c.kl}}};
      study.append(t);
    }
    notes::kEnding.add(study, {.objectives = {"top1", "size"}});
    return dir;
  };
  const auto labelled = by_top1("labelled"), too = by_top1("too"), plain = study("plain", header(), with({}));
  const auto objectives = [](const std::vector<fs::path>& dirs) { return compare_studies(dirs).objectives; };
  const std::vector<std::string> in_kl{"kl", "size"}, in_top1{"top1", "size"};
  EXPECT_EQ(objectives({labelled, too}), in_top1);
  EXPECT_EQ(objectives({labelled, plain}), in_kl);
  EXPECT_EQ(objectives({plain, labelled}), in_kl);
}

TEST_F(CompareStudies, WhatCannotBe) {
  const auto a = study("a", header(), with({}));
  EXPECT_THROW(compare_studies({a}), Error);
  EXPECT_THROW(compare_studies({a, dir_ / "a" / "." / ""}), Error);
  EXPECT_THROW(compare_studies({a, dir_ / "none"}), Error);
}

}  // namespace
}  // namespace seqto
