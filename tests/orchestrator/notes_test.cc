#include "orchestrator/study/notes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

namespace seqto::internal {
namespace {

namespace fs = std::filesystem;

// A tensor without a pair of its own has no qdq_err: tune ended here for a model with many of them.
TEST(Notes, AnErrorThatIsNotKnownComesBackAsNotKnown) {
  Sensitivity s;
  s.activations.push_back({"a", std::numeric_limits<double>::quiet_NaN(), 12.5, 0.25, {}});
  s.weights.push_back({"w", 40, {}});
  const fs::path file = fs::temp_directory_path() / "seqto_notes_test.jsonl";
  fs::remove(file);
  {
    Study study = Study::open(file, {});
    notes::kSensitivity.add(study, s);
  }
  const Sensitivity back = notes::kSensitivity.in(Study::read(file)).value();
  fs::remove(file);
  ASSERT_EQ(back.activations.size(), 1u);
  EXPECT_TRUE(std::isnan(back.activations[0].qdq_err));
  EXPECT_EQ(back.activations[0].xmodel_err, 12.5);
  EXPECT_EQ(back.activations[0].score, 0.25);
  EXPECT_EQ(back.weights.at(0).sqnr, 40);
}

}  // namespace
}  // namespace seqto::internal
