#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "seqto/error.h"
#include "seqto/metrics.h"
#include "seqto/quantize.h"

namespace seqto {
namespace {

namespace fs = std::filesystem;

const StudyHeader kHeader{.model_path = "m.onnx",
                          .model_sha256 = "aa",
                          .model_size_bytes = 10,
                          .data_fingerprint = "dd",
                          .options_json = R"({"strategy":"incremental","threshold":0})",
                          .environment_json = R"({"host":"a"})",
                          .calibration_samples = 5,
                          .evaluation_samples = 7};

Trial measured(std::string id) {
  return {.id = std::move(id),
          .plan = {.schemes = {{"conv/1", Scheme::kInt8}, {"a \"b\"\n", Scheme::kFloat32}}},
          .excluded = {"x", "y"},
          .measurement = Measurement{.size_bytes = 123456789012345,
                                     .latency = {.median_ns = 3, .p10_ns = 2, .p90_ns = 5},
                                     .losses = {.kl = 0.1, .rank_dissimilarity = 1.0 / 3, .mse = 5e-324, .cosine = 1},
                                     .metrics = {{"top1", 0.7}, {"f1", 1e300}}}};
}
Trial failed(std::string id) { return {.id = std::move(id), .failure = "no kernel for \"Foo\"\nat all"}; }

void expect_equal(const Trial& a, const Trial& b) {
  EXPECT_EQ(trial_to_json(a), trial_to_json(b));
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.number, b.number);
  EXPECT_EQ(a.plan, b.plan);
  EXPECT_EQ(a.excluded, b.excluded);
  EXPECT_EQ(a.failure, b.failure);
  ASSERT_EQ(a.measurement.has_value(), b.measurement.has_value());
  if (!a.measurement) return;
  EXPECT_EQ(a.measurement->size_bytes, b.measurement->size_bytes);
  EXPECT_EQ(a.measurement->latency.p90_ns, b.measurement->latency.p90_ns);
  EXPECT_EQ(a.measurement->losses.rank_dissimilarity, b.measurement->losses.rank_dissimilarity);
  EXPECT_EQ(a.measurement->losses.mse, b.measurement->losses.mse);
  EXPECT_EQ(a.measurement->metrics, b.measurement->metrics);
}

TEST(TrialJson, ComesBackIdentical) {
  for (Trial trial : {measured("full"), failed("0123456789abcdef"), Trial{.measurement = Measurement{}}}) {
    trial.number = 41;
    const std::string line = trial_to_json(trial);
    EXPECT_EQ(line.find('\n'), std::string::npos);
    expect_equal(trial_from_json(line), trial);
  }
}

TEST(TrialJson, InfinityAndNanSurvive) {
  Trial trial = measured("x");
  trial.measurement->losses.kl = std::numeric_limits<double>::infinity();
  trial.measurement->losses.mse = -std::numeric_limits<double>::infinity();
  trial.measurement->losses.cosine = std::nan("");
  EXPECT_NE(trial_to_json(trial).find(R"("kl":"inf")"), std::string::npos);
  const Losses losses = trial_from_json(trial_to_json(trial)).measurement->losses;
  EXPECT_EQ(losses.kl, trial.measurement->losses.kl);
  EXPECT_EQ(losses.mse, trial.measurement->losses.mse);
  EXPECT_TRUE(std::isnan(losses.cosine));
}

TEST(TrialJson, OddTextIsAnError) {
  for (const char* text : {"", "{", "[]", "{}", R"({"id":3})", "null"})
    EXPECT_THROW(trial_from_json(text), Error) << text;
}

TEST(TrialJson, AnyBytesOfARuntimeAreWritten) {
  EXPECT_EQ(trial_from_json(trial_to_json({.failure = "bad \xff byte"})).failure, "bad \xEF\xBF\xBD byte");
}

class StudyTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string error_of_opening(const StudyHeader& header) {
    try {
      Study::open(file_, header);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kInvalidInput);
      return error.what();
    }
    return "";
  }
  void write(const std::string& text) { std::ofstream(file_, std::ios::binary) << text; }

  fs::path folder_ = fs::path(testing::TempDir()) /
                     (std::string("seqto_study_") + testing::UnitTest::GetInstance()->current_test_info()->name());
  fs::path file_ = folder_ / "study.jsonl";
};

TEST_F(StudyTest, GoesOnWhereItEnded) {
  {
    Study study = Study::open(file_, kHeader);
    study.append(measured("float"));
    study.note("ranges", R"({"b": 1.50, "a":[1e3]})");
    study.append(failed("full"));
    study.note("ranges", R"([2])");
  }
  {
    Study study = Study::open(file_, kHeader);
    ASSERT_EQ(study.trials().size(), 2u);
    Study moved = std::move(study);
    moved.append(measured("full"));
    EXPECT_EQ(moved.trials().back().number, 2);
  }
  const Study study = Study::read(file_);
  ASSERT_EQ(study.trials().size(), 3u);
  expect_equal(study.trials()[0], measured("float"));
  EXPECT_EQ(study.trials()[1].number, 1);
  EXPECT_EQ(study.find("full")->number, 2);  // the later one
  EXPECT_EQ(study.find("none"), nullptr);
  EXPECT_EQ(*study.noted("ranges"), "[2]");
  EXPECT_EQ(study.noted("sensitivity"), nullptr);
  EXPECT_EQ(study.header().options_json, kHeader.options_json);
  EXPECT_EQ(study.header().environment_json, kHeader.environment_json);
  EXPECT_EQ(study.header().evaluation_samples, 7);
}

TEST_F(StudyTest, OptionsThatWereNotThereWhenItBeganHaveTheirDefaults) {
  QuantizeOptions options;
  options.per_channel = true;
  const auto header = [](const nlohmann::json& quantize) {
    StudyHeader h = kHeader;
    h.options_json = nlohmann::json{{"quantize", quantize}}.dump();
    return h;
  };
  auto quantize = nlohmann::json::parse(quantize_options_to_json(options));
  quantize.erase("headroom_16_bits");
  {
    Study::open(file_, header(quantize));
  }
  EXPECT_EQ(error_of_opening(header(nlohmann::json::parse(quantize_options_to_json(options)))), "");
  options.headroom_16_bits = 2;
  EXPECT_NE(error_of_opening(header(nlohmann::json::parse(quantize_options_to_json(options))))
                .find("option quantize headroom_16_bits found 1.0, expected 2.0"),
            std::string::npos);
}

TEST_F(StudyTest, OneOfBeforeALossWasThereIsReadAndNotGoneOnWith) {
  Study::open(file_, kHeader).append(measured("float"));
  std::string text = read_file(file_);
  const size_t at = text.find(",\"nmse\":");
  ASSERT_NE(at, std::string::npos);
  text.erase(at, text.find('}', at) - at);
  write(text);
  EXPECT_TRUE(std::isnan(Study::read(file_).trials()[0].measurement->losses.nmse));
  EXPECT_NE(error_of_opening(kHeader).find("trials without the loss nmse found"), std::string::npos);
}

TEST_F(StudyTest, NotesKeepTheirText) {
  const std::string text = R"({"b": 1.50, "a":[1e3]})", name = "odd \"name\"";
  Study::open(file_, kHeader).note(name, text);
  EXPECT_EQ(*Study::read(file_).noted(name), text);
}

// The process was killed: wherever the last line ends, the lines before it stay and the study goes on.
TEST_F(StudyTest, TornLastLineIsCutOff) {
  {
    Study study = Study::open(file_, kHeader);
    study.append(measured("float"));
    study.append(measured("full"));
  }
  const std::string whole = read_file(file_);
  const size_t last_line = whole.rfind('\n', whole.size() - 2) + 1;
  for (size_t size = last_line; size < whole.size(); size += size + 9 < whole.size() ? 7 : 1) {
    write(whole.substr(0, size));
    EXPECT_EQ(Study::read(file_).trials().size(), 1u);
    EXPECT_EQ(fs::file_size(file_), size);  // reading changes nothing
    Study study = Study::open(file_, kHeader);
    ASSERT_EQ(study.trials().size(), 1u);
    study.append(measured("full"));
    EXPECT_EQ(read_file(file_), whole);
  }
}

TEST_F(StudyTest, TornHeaderIsNoStudy) {
  write(R"({"study":1,"hea)");
  EXPECT_THROW(Study::read(file_), Error);
  EXPECT_TRUE(Study::open(file_, kHeader).trials().empty());
  EXPECT_EQ(Study::read(file_).header().model_sha256, "aa");
}

TEST_F(StudyTest, AnotherStudyIsNamedFieldByField) {
  Study::open(file_, kHeader);
  StudyHeader other = kHeader;
  other.environment_json = "{}";
  other.model_path = "elsewhere/m.onnx";
  other.options_json = R"({"threshold": 0, "strategy": "incremental"})";  // the same in other words
  EXPECT_EQ(error_of_opening(other), "");
  other.model_sha256 = "bb";
  other.calibration_samples = 6;
  other.options_json = R"({"strategy":"incremental","threshold":0.5})";
  EXPECT_EQ(error_of_opening(other), "[study] a study of something else in " + folder_.string() +
                                         ": model_sha256 found \"aa\", expected \"bb\"; calibration_samples found 5, "
                                         "expected 6; option threshold found 0, expected 0.5; choose another folder "
                                         "or delete it");
  EXPECT_EQ(error_of_opening(kHeader), "");  // and nothing was touched
}

TEST_F(StudyTest, OneWriterAtATime) {
  Study study = Study::open(file_, kHeader);
  EXPECT_NE(error_of_opening(kHeader).find("is being written by process " + std::to_string(::getpid())),
            std::string::npos);
  EXPECT_NO_THROW(Study::read(file_));
  Study moved = std::move(study);
  EXPECT_NE(error_of_opening(kHeader), "");
  {
    const Study ended = std::move(moved);
  }
  EXPECT_EQ(error_of_opening(kHeader), "");
}

TEST_F(StudyTest, UnwritableFolderIsNamed) {
  write("");
  try {
    Study::open(file_ / "below" / "study.jsonl", kHeader);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidInput);
    EXPECT_NE(std::string(error.what()).find((file_ / "below").string()), std::string::npos) << error.what();
  }
}

TEST_F(StudyTest, FolderIsMade) {
  Study::open(folder_ / "a" / "b" / "study.jsonl", kHeader);
  EXPECT_TRUE(fs::exists(folder_ / "a" / "b" / "study.jsonl"));
}

TEST_F(StudyTest, SomethingElseIsNotOverwritten) {
  write("my own notes\nof last week\n");
  EXPECT_NE(error_of_opening(kHeader).find("line 1"), std::string::npos);
  EXPECT_EQ(read_file(file_), "my own notes\nof last week\n");
  write("{\"study\":2,\"header\":{}}\n");
  EXPECT_NE(error_of_opening(kHeader).find("version 2"), std::string::npos);
  EXPECT_THROW(Study::read(folder_ / "none.jsonl"), Error);
}

}  // namespace
}  // namespace seqto
