#include "seqto/prepare.h"

#include <gtest/gtest.h>

#include "seqto/error.h"

namespace seqto {
namespace {

// Takes models up to this opset.
class OldRuntime : public Runner {
 public:
  explicit OldRuntime(int64_t newest) : newest_(newest) {}
  std::unique_ptr<Session> load(const Model& model, const SessionOptions&) override {
    if (model.opset() > newest_) throw Error(Code::kInvalidInput, "[load] too new");
    return nullptr;
  }
  std::unique_ptr<Session> load_file(const std::string&, const SessionOptions&) override { return nullptr; }
  Model optimized(const Model& model) override { return model; }
  std::string description() const override { return "old"; }

 private:
  int64_t newest_;
};

Model relu(int64_t opset) {
  Model model =
      parse_model_text("<ir_version: 8, opset_import: [\"\" : 13]> g (float[4] x) => (float[4] y) { y = Relu(x) }");
  model.opsets[0].version = opset;
  return model;
}

TEST(CheckLoads, SaysNothingOfWhatTheRuntimeTakes) {
  OldRuntime runtime(13);
  Prepared prepared{relu(13), {}};
  check_loads(prepared, relu(11), &runtime);
  EXPECT_TRUE(prepared.actions.empty());
}

TEST(CheckLoads, RefusesWhatTheRuntimeTookBefore) {
  OldRuntime runtime(12);
  Prepared prepared{relu(13), {}};
  try {
    check_loads(prepared, relu(11), &runtime);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInternal);
    EXPECT_NE(std::string(error.what()).find("too new"), std::string::npos);
  }
}

TEST(CheckLoads, LeavesAModelForAnotherRuntimeAlone) {
  OldRuntime runtime(10);
  Prepared prepared{relu(13), {}};
  check_loads(prepared, relu(11), &runtime);
  ASSERT_EQ(prepared.actions.size(), 1u);
  EXPECT_NE(prepared.actions[0].find("takes neither"), std::string::npos);
}

TEST(CheckLoads, SaysWhereThereIsNoRuntime) {
  Prepared prepared{relu(13), {}};
  check_loads(prepared, relu(11), nullptr);
  ASSERT_EQ(prepared.actions.size(), 1u);
  EXPECT_NE(prepared.actions[0].find("not checked"), std::string::npos);
}

}  // namespace
}  // namespace seqto
