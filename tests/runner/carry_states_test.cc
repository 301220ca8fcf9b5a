// Recurrent states over sessions: carried along a sequence, zero where another begins, hidden where they were not asked
// for.
#include <gtest/gtest.h>

#include "seqto/error.h"
#include "seqto/runner.h"

namespace seqto {
namespace {

// y = x + s + 1, next = s + x: the state is the sum of all before.
const Model& adder() {
  static const Model model = parse_model_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 1] x, float[2, N] s) => (float[2, 1] y, float[2, N] next)
      <float one = {1}>
    {
      next = Add(s, x)
      y = Add(next, one)
    })");
  return model;
}

const DatasetOptions kOptions{.states = {{"next", "s"}}};

std::unique_ptr<Runner> runner(const DatasetOptions& options = kOptions) {
  return carry_states(make_runner("cpu"), adder(), options);
}

std::vector<Tensor> sample(float x, int64_t mark) { return {float_tensor({1, 1}, {x}), int64_tensor({}, {mark})}; }

float y(Session& session, float x, int64_t mark) { return session.run(sample(x, mark)).at(0).values<float>()[1]; }

TEST(CarryStates, GoOnWithTheNextSampleOnly) {
  const auto device = runner();
  const auto session = device->load(adder());
  EXPECT_EQ(y(*session, 1, 5), 2);   // begins in the middle: at zero
  EXPECT_EQ(y(*session, 2, 6), 4);   // 1 + 2
  EXPECT_EQ(y(*session, 3, 7), 7);   // 3 + 3
  EXPECT_EQ(y(*session, 3, 7), 7);   // again: from where it began
  EXPECT_EQ(y(*session, 4, 8), 11);  // 6 + 4, not 9 + 4
  EXPECT_EQ(y(*session, 4, 10), 5);  // one was left out
  EXPECT_EQ(y(*session, 1, 11), 6);
  EXPECT_EQ(y(*session, 1, 5), 2);
  // Another session has states of its own.
  EXPECT_EQ(y(*device->load(adder()), 1, 6), 2);
}

TEST(CarryStates, ManyAndTimedRunsAreTheSame) {
  const auto device = runner();
  const auto session = device->load(adder());
  const std::vector<std::vector<Tensor>> samples{sample(1, 0), sample(2, 1), sample(3, 2)};
  const auto results = session->run_many(samples);
  ASSERT_EQ(results.size(), 3U);
  EXPECT_EQ(results[2].outputs.at(0).values<float>()[0], 7);
  EXPECT_EQ(session->time(samples[1], 3).size(), 3U);
  EXPECT_EQ(session->output_names(), (std::vector<std::string>{"y", "next"}));
}

TEST(CarryStates, OutputsThatWereTakenAwayAreHidden) {
  Model cut = adder();
  cut.graph.outputs.pop_back();
  const auto device = runner();
  const auto session = device->load(cut);
  EXPECT_EQ(session->output_names(), std::vector<std::string>{"y"});
  EXPECT_EQ(session->run(sample(1, 0)).size(), 1U);
  EXPECT_EQ(y(*session, 2, 1), 4);
}

TEST(CarryStates, APartWithoutTheStateGetsTheFloatModels) {
  Model part = adder();
  part.graph.nodes.clear();
  part.graph.nodes.push_back({"twice", "Add", "", {"s", "s"}, {"two"}, {}, {}});
  part.graph.outputs = {{"two", DataType::kFloat, {}, ""}};
  const auto device = runner();
  const auto session = device->load(part);
  EXPECT_EQ(session->output_names(), std::vector<std::string>{"two"});
  EXPECT_EQ(session->run(sample(1, 0)).at(0).values<float>()[0], 0);
  EXPECT_EQ(session->run(sample(5, 1)).at(0).values<float>()[0], 2);
  EXPECT_EQ(session->run(sample(5, 2)).at(0).values<float>()[0], 12);
}

TEST(CarryStates, ObserversSeeTheCarriedState) {
  struct Seen : Observer {
    std::vector<float> values;
    void observe(size_t, DataType, std::span<const std::byte> bytes) override {
      values.push_back(reinterpret_cast<const float*>(bytes.data())[0]);
    }
  } seen;
  const std::vector<std::string> tensors{"s"};
  const auto device = runner();
  const auto session = device->load_observed(adder(), tensors, seen, {SessionOptions::Optimization::kNone});
  for (int64_t i = 0; i < 4; ++i) session->run(sample(1, i));
  EXPECT_EQ(seen.values, (std::vector<float>{0, 1, 2, 3}));
}

TEST(CarryStates, AWorkersSessionIsNoDifferent) {
  RunnerOptions options;
  options.isolated = true;
  options.worker = SEQTO_BINARY;
  const auto device = carry_states(make_runner("cpu", options), adder(), kOptions);
  const auto session = device->load(adder());
  EXPECT_EQ(y(*session, 1, 0), 2);
  EXPECT_EQ(y(*session, 2, 1), 4);
  EXPECT_EQ(y(*session, 2, 1), 4);
  EXPECT_EQ(y(*session, 3, 2), 7);
}

TEST(CarryStates, ErrorsSayWhatIsWrong) {
  const auto error = [](const DatasetOptions& options) {
    try {
      runner(options);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_NE(error({.states = {{"z", "s"}}}).find("the state output 'z' found; one of the model's outputs y, next"),
            std::string::npos);
  EXPECT_NE(error({.states = {{"y", "z"}}}).find("the state input 'z' found; one of the model's inputs x, s"),
            std::string::npos);
  EXPECT_EQ(error({.dims = {{"N", 1}}, .states = {{"next", "s"}}}), "");
  EXPECT_EQ(error({}), "");
}

}  // namespace
}  // namespace seqto
