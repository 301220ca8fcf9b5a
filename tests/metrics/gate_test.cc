#include "seqto/gate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "seqto/error.h"

namespace seqto {
namespace {

Measured measured() {
  Measured m;
  m.candidate = "model.onnx";
  m.model_sha256 = "aa";
  m.reference_sha256 = "bb";
  m.recipe_json = R"({"options":{"per_channel":true}})";
  m.data = "cc";
  m.runner = "onnxruntime 1.31.1 (cpu, 1 thread)";
  m.machine = "some processor";
  m.seqto = "0.1.0";
  m.figures = {{"size_bytes", {1000, std::nullopt}},
               {"kl", {0.02, Interval{0.01, 0.03}}},
               {"top1", {0.7, Interval{0.65, 0.75}}},
               {"latency_ns", {5e6, Interval{4e6, 6e6}}}};
  return m;
}

std::vector<bool> met(const std::vector<CheckedLimit>& checked) {
  std::vector<bool> list;
  for (const auto& c : checked) list.push_back(c.met);
  return list;
}

TEST(Check, LimitsFromBothSides) {
  const std::vector<Limit> limits{{"size_bytes", 1000, true, "a"},
                                  {"size_bytes", 999, true, "b"},
                                  {"top1", 0.7, false, "c"},
                                  {"top1", 0.71, false, "d"},
                                  {"kl", 0.02, true, "e"}};
  const auto checked = check(measured().figures, limits);
  EXPECT_EQ(met(checked), (std::vector<bool>{true, false, true, false, true}));
  EXPECT_EQ(checked[1].excess(), 1);
  EXPECT_NEAR(checked[3].excess(), 0.01, 1e-12);
}

TEST(Check, ConfidentMeansTheWholeInterval) {
  const std::vector<Limit> limits{
      {"kl", 0.025, true, "a"}, {"kl", 0.03, true, "b"}, {"top1", 0.66, false, "c"}, {"size_bytes", 1000, true, "d"}};
  EXPECT_EQ(met(check(measured().figures, limits)), (std::vector<bool>{true, true, true, true}));
  EXPECT_EQ(met(check(measured().figures, limits, {.confident = true})), (std::vector<bool>{false, true, false, true}));
}

TEST(Check, NoNumberMeetsNoLimit) {
  Measured m = measured();
  m.figures["kl"] = {std::nan(""), std::nullopt};
  m.figures["top1"] = {std::nan(""), std::nullopt};
  const std::vector<Limit> limits{{"kl", 1e9, true, "a"}, {"top1", 0, false, "b"}};
  EXPECT_EQ(met(check(m.figures, limits)), (std::vector<bool>{false, false}));
}

// A candidate whose answers hold NaN has no perplexity, and is beyond each limit of it.
TEST(Check, AMetricThatIsNoNumberMeetsNoLimit) {
  Measurement before, after;
  before.metrics["perplexity"] = 12;
  after.metrics["perplexity"] = std::nan("");
  before.lower_is_better = after.lower_is_better = {"perplexity"};
  const std::vector<Limit> limits{{"perplexity", 20, true, "a"}, {"perplexity_drop", 1, true, "b"}};
  EXPECT_EQ(met(check(figures_of(after, before), limits)), (std::vector<bool>{false, false}));
  after.losses.kl = std::nan("");  // as a summary.json has an infinite one
  EXPECT_EQ(met(check(figures_of(after, before), std::vector<Limit>{{"kl", 0.1, true, "a"}})),
            (std::vector<bool>{false}));
}

TEST(Check, AFigureThatWasNotMeasuredIsAnError) {
  try {
    check(measured().figures, std::vector<Limit>{{"f1", 0.5, false, "--min-accuracy"}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidInput);
    EXPECT_NE(std::string(error.what()).find("--min-accuracy: a limit of f1"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("kl, latency_ns, size_bytes, top1"), std::string::npos);
  }
}

TEST(Lock, ComesBackAsItWas) {
  const Measured m = measured(), back = lock_from_json(lock_to_json(m));
  EXPECT_EQ(lock_to_json(back), lock_to_json(m));
  EXPECT_EQ(back.figures.at("kl").interval, m.figures.at("kl").interval);
  EXPECT_FALSE(back.figures.at("size_bytes").interval);
  EXPECT_EQ(back.recipe_json, m.recipe_json);
  Measured broken = m;
  broken.figures["kl"].value = INFINITY;
  EXPECT_THROW(lock_to_json(broken), Error);
  for (const char* text : {"", "{}", "[]", R"({"schema_version": 2})"}) EXPECT_THROW(lock_from_json(text), Error);
}

TEST(Lock, WhatIsWorseThanTheLockedIntervalFails) {
  const Measured lock = measured();
  auto failed = [&](const std::string& figure, double value) {
    Measured now = lock;
    now.figures[figure].value = value;
    std::string names;
    for (const CheckedLimit& c : check(now.figures, compare_lock(lock, now, "lock").limits))
      if (!c.met) names += c.limit.figure + " ";
    return names;
  };
  EXPECT_EQ(failed("kl", 0.03), "");
  EXPECT_EQ(failed("kl", 0.0301), "kl ");
  EXPECT_EQ(failed("kl", 0.001), "");  // better is no fault
  EXPECT_EQ(failed("top1", 0.65), "");
  EXPECT_EQ(failed("top1", 0.64), "top1 ");
  EXPECT_EQ(failed("size_bytes", 1001), "size_bytes ");
  EXPECT_EQ(failed("latency_ns", 6.1e6), "latency_ns ");
}

TEST(Lock, OtherMachinesTellNothingOfTimes) {
  const Measured lock = measured();
  Measured now = lock;
  now.machine = "another processor";
  now.figures["latency_ns"].value = 1e12;
  const LockComparison c = compare_lock(lock, now, "lock");
  EXPECT_EQ(c.limits.size(), 3u);
  EXPECT_EQ(c.notes.size(), 2u);
  for (const CheckedLimit& checked : check(now.figures, c.limits)) EXPECT_TRUE(checked.met);
}

// As seqto wrote them once; any drop from 0 was met.
TEST(Lock, ADropFromZeroIsNotCompared) {
  Measured lock = measured(), now = measured();
  lock.figures["top1_drop"] = {.value = 0};
  const LockComparison c = compare_lock(lock, now, "lock");
  EXPECT_EQ(c.limits.size(), compare_lock(now, now, "lock").limits.size());
  ASSERT_EQ(c.notes.size(), 1u);
  EXPECT_TRUE(c.notes[0].starts_with("top1_drop is not compared")) << c.notes[0];
}

TEST(Lock, OtherDataCannotBeCompared) {
  const Measured lock = measured();
  Measured now = lock;
  now.data = "dd";
  EXPECT_THROW(compare_lock(lock, now, "lock"), Error);
  now = lock;
  now.reference_sha256 = "dd";
  EXPECT_THROW(compare_lock(lock, now, "lock"), Error);
  now = lock;
  now.model_sha256 = "dd";
  EXPECT_EQ(compare_lock(lock, now, "lock").notes, (std::vector<std::string>{"the model's bytes changed"}));
}

}  // namespace
}  // namespace seqto
