// What an evaluator behind a line of JSON may answer.
#include "orchestrator/line_evaluations.h"

#include <gtest/gtest.h>

#include "base/files.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

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
    evaluations.measure(std::span(&asked, 1), [&](const Trial& trial) { number = trial.number; });
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
