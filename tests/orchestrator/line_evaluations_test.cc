#include "orchestrator/line_evaluations.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>

#include "base/files.h"
#include "orchestrator/study/study_files.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

// A study with three proposals, a clock that gains half a minute at each look, and what was logged.
class LineEvaluationsTest : public testing::Test {
 protected:
  LineEvaluationsTest() {
    Study::open(StudyFolder{folder_.path}.study(), {.model_path = "m.onnx", .options_json = "{}"});
    for (int64_t i = 5; i < 8; ++i) proposals_.push_back({.part = Part::kSearch, .step = "one-in", .number = i});
    env_.now_ns = [this] { return now_ns_ += 30'000'000'000; };
    env_.log = [this](LogLevel, std::string_view text) { log_ += std::string(text) + "\n"; };
  }

  // The error that ended it; empty: none.
  std::string measure(const std::string& command, const std::function<bool()>& over) {
    LineEvaluations evaluations(command, folder_.path, env_);
    try {
      EXPECT_TRUE(evaluations.measure(proposals_, [](const Trial&) { ADD_FAILURE() << "nothing is measured"; }, over));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  TemporaryFolder folder_;
  std::vector<Proposal> proposals_;
  int64_t now_ns_ = 0;
  Env env_;
  std::string log_;
};

bool never() { return false; }

testing::AssertionResult says(const std::string& text, std::string_view words) {
  if (text.find(words) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << words << " expected in: " << text;
}

TEST_F(LineEvaluationsTest, WorkersAreEndedOnceTheTimeIsOver) {
  const std::filesystem::path pid = folder_.path / "pid";
  const auto begun = [&] { return std::filesystem::exists(pid) && std::filesystem::file_size(pid) > 0; };
  for (const char* first : {R"({"ready": 2})", ""}) {
    const std::string command = "echo '" + std::string(first) + "'; echo $$ > " + pid.string() + "; exec sleep 1000";
    EXPECT_EQ(measure(command, begun), "");
    EXPECT_TRUE(says(log_, "to 3 proposals were not waited for"));
    pid_t process = 0;
    std::ifstream(pid) >> process;
    ASSERT_GT(process, 0);
    EXPECT_NE(::kill(process, 0), 0) << "still runs";
    std::filesystem::remove(pid);
  }
  EXPECT_TRUE(says(log_, "never said that they are ready"));
}

TEST_F(LineEvaluationsTest, SilenceIsTold) {
  EXPECT_TRUE(says(measure(R"(echo '{"ready": 2}'; sleep 1)", never), "ended with exit code 0"));
  EXPECT_TRUE(says(log_, "in 60 s; answers to the proposals 5, 6 expected; still waiting"));
  EXPECT_TRUE(says(measure(R"(echo '{"ready": 0}'; sleep 1)", never), "ended with exit code 0"));
  EXPECT_TRUE(says(log_, "they are ready for no proposal"));
}

TEST_F(LineEvaluationsTest, ReadyIsANumberOfProposals) {
  for (const char* number : {"-3", "1e11", "18446744073709551615"})
    EXPECT_TRUE(says(measure("echo '{\"ready\": " + std::string(number) + "}'; exec sleep 1000", never),
                     "proposals; 0 to 1000000 expected"))
        << number;
}

// It writes `result` for the first proposal that it reads.
std::string command_of(const Result& result, const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "result.json";
  write_file_atomic(file, result_to_json(result) + "\n");
  return "echo '{\"ready\": 1}'; read -r line; cat " + file.string() + "; cat > /dev/null";
}

TEST(LineEvaluations, AnAnswerIsThatOfItsProposal) {
  const TemporaryFolder folder;
  Study::open(folder.path / "study.jsonl", {.model_path = "m.onnx", .options_json = "{}"}).append({.id = "float"});
  Proposal asked{.part = Part::kSearch, .step = "one-in", .number = 1};
  asked.plan.schemes["layer"] = Scheme::kInt8Weights;
  Trial right{.id = asked.plan.hash(), .number = 1, .plan = asked.plan, .part = asked.part, .step = asked.step};
  right.measurement.emplace();
  const Env env;
  const auto measured = [&](const Trial& answer) {
    LineEvaluations evaluations(command_of({.number = 1, .trial = answer}, folder.path), folder.path, env);
    int64_t number = -1;
    evaluations.measure(std::span(&asked, 1), [&](const Trial& trial) { number = trial.number; }, never);
    return number;
  };
  EXPECT_EQ(measured(right), 1);
  Trial other = right;
  other.plan.schemes["layer"] = Scheme::kFloat16;
  EXPECT_THROW(measured(other), Error);
  other = right, other.number = 2;
  EXPECT_THROW(measured(other), Error);
  other = right, other.part = Part::kEvaluation;
  EXPECT_THROW(measured(other), Error) << "a search figure would be one of the report";
  other = right, other.step = "another";
  EXPECT_THROW(measured(other), Error);
}

}  // namespace
}  // namespace seqto::internal
