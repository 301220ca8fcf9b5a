#include <gtest/gtest.h>

#include "seqto/error.h"
#include "seqto/search.h"

namespace seqto {
namespace {

Measurement point(int64_t size, double kl, int64_t ns, double top1) {
  Measurement m{.size_bytes = size, .latency = {.median_ns = ns, .p10_ns = ns, .p90_ns = ns}};
  m.losses.kl = kl;
  m.metrics["top1"] = top1;
  return m;
}

const Measurement kFloat = point(1000, 0, 100, 0.9);
const std::vector<Measurement> kPoints{point(250, 0.5, 40, 0.6), point(300, 0.02, 50, 0.88),
                                       point(600, 0.001, 120, 0.9)};

TEST(Select, NearestToTheIdealOfThoseThatMeetTheLimits) {
  EXPECT_EQ(select(kPoints, kFloat, {"kl", "size"}, {})->index, 1u);
  const std::vector<Limit> exact{{"kl", 0.01, true, "--max-loss"}};
  EXPECT_EQ(select(kPoints, kFloat, {"kl", "size"}, exact)->index, 2u);
  const std::vector<Limit> small{{"size_ratio", 0.27, true, "--max-size"}};
  const auto selection = select(kPoints, kFloat, {"kl", "size"}, small);
  EXPECT_EQ(selection->index, 0u);
  ASSERT_EQ(selection->limits.size(), 1u);
  EXPECT_TRUE(selection->limits[0].met);
}

TEST(Select, WhatHasALimitIsNotWeighedAgain) {
  std::vector<Measurement> points = kPoints;
  points.push_back(point(310, 0.015, 80, 0.89));  // far slower than the second for little
  const std::vector<Limit> size{{"size_ratio", 0.4, true, "--max-size"}};
  EXPECT_EQ(select(points, kFloat, {"kl", "size", "latency"}, size)->index, 1u);
  const std::vector<Limit> both{{"size_ratio", 0.4, true, "--max-size"}, {"latency_ns", 90, true, "--max-latency"}};
  EXPECT_EQ(select(points, kFloat, {"kl", "size", "latency"}, both)->index, 3u);
  const std::vector<Limit> loss{{"kl", 0.03, true, "--max-loss"}};
  EXPECT_EQ(select(points, kFloat, {"kl", "size"}, loss)->index, 1u);
  const std::vector<Limit> all{{"size_ratio", 0.7, true, "--max-size"}, {"kl", 0.6, true, "--max-loss"}};
  EXPECT_EQ(select(points, kFloat, {"kl", "size"}, all)->index, 1u);
}

TEST(Select, WhereNoneMeetsThemTheLeastBeyond) {
  const std::vector<Limit> limits{{"size_bytes", 280, true, "--max-size"}, {"top1", 0.88, false, "--min-accuracy"}};
  const auto selection = select(kPoints, kFloat, {"kl", "size"}, limits);
  EXPECT_EQ(selection->index, 1u);  // 7 % too large; the first is 32 % too inaccurate
  EXPECT_FALSE(selection->limits[0].met);
  EXPECT_DOUBLE_EQ(selection->limits[0].excess(), 20);
  EXPECT_TRUE(selection->limits[1].met);
}

TEST(Select, NothingSlowerThanFloatWhereLatencyCounts) {
  const std::vector<Measurement> points{point(250, 0.5, 130, 0.6), point(260, 0.4, 90, 0.7)};
  EXPECT_EQ(select(points, kFloat, {"kl", "latency"}, {})->index, 1u);
  EXPECT_EQ(select(std::span(points).first(1), kFloat, {"kl", "latency"}, {})->index, 0u);  // there is no other
}

TEST(Select, TheNextTokenIsSlowerOnlyInRoundsWithFloat) {
  std::vector<Measurement> points = kPoints;
  Measurement reference = kFloat;
  reference.decode_latency = points[2].decode_latency = Latency{40, 40, 40};
  points[0].decode_latency = Latency{70, 70, 70}, points[1].decode_latency = Latency{50, 50, 50};
  const std::vector<std::string> objectives{"kl", "size", "decode_latency"};
  EXPECT_EQ(select(points, reference, objectives, {})->index, 1u);
  points[1].decode_latency->over_float = {1.25, {1.2, 1.3}};
  points[2].decode_latency->over_float = {1, {0.98, 1.02}};
  points[0].decode_latency->over_float = {1.75, {1.7, 1.8}};
  EXPECT_EQ(select(points, reference, objectives, {})->index, 2u);
}

TEST(Select, WhatWasNotMeasuredIsNamed) {
  EXPECT_FALSE(select({}, kFloat, {"kl", "size"}, {}));
  const std::vector<Limit> limits{{"map50", 0.5, false, "--min-accuracy"}};
  EXPECT_THROW(select(kPoints, kFloat, {"kl", "size"}, limits), Error);
}

}  // namespace
}  // namespace seqto
