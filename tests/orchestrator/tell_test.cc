#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "base/files.h"
#include "orchestrator/study/asked.h"
#include "seqto/error.h"

namespace seqto {
namespace {

using namespace internal;

// A study of one trial, and a step of eight proposals.
class Tell : public testing::Test {
 protected:
  static constexpr int64_t kProposals = 8;

  Tell() {
    Study study = Study::open(file_, {.model_path = "m.onnx", .options_json = "{}"});
    study.append({.id = "float"});
    for (int64_t i = 1; i <= kProposals; ++i) {
      Proposal proposal{.part = Part::kSearch, .step = "one-in", .number = i};
      proposal.plan.schemes["layer" + std::to_string(i)] = Scheme::kInt8Weights;
      proposals_.push_back(std::move(proposal));
    }
    write_asked(folder_.path, proposals_);
  }

  static Result result(const Proposal& proposal) {
    Trial trial{.id = proposal.plan.hash(),
                .number = proposal.number,
                .plan = proposal.plan,
                .part = proposal.part,
                .step = proposal.step};
    trial.measurement.emplace().losses.kl = static_cast<double>(proposal.number) / 3;
    return {.number = proposal.number, .trial = std::move(trial)};
  }
  int64_t told(const Proposal& proposal) {
    const Result one = result(proposal);
    return tell(folder_.path, std::span(&one, 1));
  }
  std::vector<int64_t> numbers_missing() {
    std::vector<int64_t> numbers;
    for (const Proposal& proposal : missing(folder_.path, Study::read(file_))) numbers.push_back(proposal.number);
    return numbers;
  }
  void expect_all_in_order() {
    const Study study = Study::read(file_);
    ASSERT_EQ(std::ssize(study.trials()), kProposals + 1);
    for (int64_t i = 1; i <= kProposals; ++i) {
      const Trial& trial = study.trials()[static_cast<size_t>(i)];
      EXPECT_EQ(trial.number, i);
      EXPECT_EQ(trial.plan, proposals_[static_cast<size_t>(i - 1)].plan);
      EXPECT_DOUBLE_EQ(trial.measurement->losses.kl, static_cast<double>(i) / 3);
    }
    EXPECT_TRUE(numbers_missing().empty());
    EXPECT_FALSE(std::filesystem::exists(folder_.path / "told.jsonl"));
  }

  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_.path / "study.jsonl";
  std::vector<Proposal> proposals_;
};

TEST_F(Tell, TakesResultsInTheirTurn) {
  EXPECT_EQ(told(proposals_[2]), 7);
  EXPECT_EQ(Study::read(file_).trials().size(), 1u) << "two come first";
  EXPECT_EQ(told(proposals_[0]), 6);
  EXPECT_EQ(Study::read(file_).trials().size(), 2u);
  EXPECT_EQ(numbers_missing(), (std::vector<int64_t>{2, 4, 5, 6, 7, 8}));
  EXPECT_EQ(told(proposals_[1]), 5);
  EXPECT_EQ(Study::read(file_).trials().size(), 4u);
  for (size_t i = 7; i > 2; --i) told(proposals_[i]);
  expect_all_in_order();
}

TEST_F(Tell, TwiceIsOnce) {
  for (const Proposal& proposal : proposals_) {
    told(proposal);
    Result again = result(proposal);
    again.trial->measurement->latency.median_ns = 5;  // by another who was asked
    tell(folder_.path, std::span(&again, 1));
  }
  expect_all_in_order();
}

TEST_F(Tell, RefusesWhatNobodyAskedFor) {
  const auto code = [&](const Result& one) {
    try {
      tell(folder_.path, std::span(&one, 1));
    } catch (const Error& error) {
      return error.code();
    }
    return Code{0};
  };
  Result other = result(proposals_[0]);
  other.trial->plan = proposals_[1].plan;
  EXPECT_EQ(code(other), Code::kInvalidInput);
  other = result(proposals_[0]);
  other.trial->part = Part::kAcceptance;
  EXPECT_EQ(code(other), Code::kInvalidInput);
  other = result(proposals_[0]);
  other.number = other.trial->number = 9;
  EXPECT_EQ(code(other), Code::kInvalidInput);
  EXPECT_EQ(code({.number = 1, .error = "no power"}), Code::kUnavailable);
  EXPECT_EQ(std::ssize(numbers_missing()), kProposals);
  EXPECT_EQ(Study::read(file_).trials().size(), 1u);
}

TEST_F(Tell, TakesTheOthersBesideOneThatIsRefused) {
  std::vector<Result> results{result(proposals_[1]), {.number = 3, .error = "no power"}, result(proposals_[0])};
  EXPECT_THROW(tell(folder_.path, results), Error);
  EXPECT_EQ(numbers_missing(), (std::vector<int64_t>{3, 4, 5, 6, 7, 8}));
}

TEST_F(Tell, GoesOnAfterAKillBetweenFileAndStudy) {
  // Written as waiting, and appended, but not taken off the file.
  std::string waiting;
  for (const Proposal& proposal : proposals_) waiting += trial_to_json(*result(proposal).trial) + "\n";
  write_file_atomic(folder_.path / "told.jsonl", waiting);
  {
    Study study = Study::open(file_, Study::read(file_).header());
    study.append(*result(proposals_[0]).trial);
  }
  study_told(folder_.path);
  expect_all_in_order();
}

TEST_F(Tell, ByManyProcessesAtOnce) {
  std::vector<size_t> order{0, 1, 2, 3, 4, 5, 6, 7};
  std::ranges::shuffle(order, std::mt19937(4));
  std::vector<pid_t> children;
  for (size_t i : order) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      int code = 0;
      try {
        told(proposals_[i]);
      } catch (...) {
        code = 1;
      }
      ::_exit(code);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  expect_all_in_order();
}

TEST_F(Tell, AStepOfAnotherStudyIsNone) {
  {
    Study study = Study::open(file_, Study::read(file_).header());
    Trial another = *result(proposals_[3]).trial;
    study.append(another);
  }
  EXPECT_TRUE(numbers_missing().empty()) << "trial 1 is not what was asked for as 1";
}

TEST(ResultJson, IsThatOfEval) {
  const Result there{.number = 3, .error = "no \"power\""};
  EXPECT_EQ(result_to_json(there), R"({"number":3,"error":"no \"power\""})");
  EXPECT_EQ(result_from_json(result_to_json(there)).error, there.error);
  for (const char* text : {"", "3", "{}", R"({"number": 3})", R"({"number": 3, "trial": {}})"})
    EXPECT_THROW(result_from_json(text), Error) << text;
}

}  // namespace
}  // namespace seqto
