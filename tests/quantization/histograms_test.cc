#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "quantization/calibration/growing_histogram.h"
#include "quantization/calibration/tails.h"
#include "quantization/calibration/thresholds.h"

namespace seqto::internal {
namespace {

std::vector<float> normals(size_t count, float deviation, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> distribution(0.3f, deviation);
  std::vector<float> values(count);
  for (float& v : values) v = distribution(random);
  return values;
}

float magnitude(const std::vector<float>& values) {
  float largest = 0;
  for (float v : values) largest = std::max(largest, std::abs(v));
  return largest;
}

std::vector<float> clipped(std::vector<float> values, float lowest, float highest) {
  for (float& v : values) v = std::min(std::max(v, lowest), highest);
  return values;
}

void expect_equal(const Histogram& a, const Histogram& b) {
  EXPECT_EQ(a.counts, b.counts);
  EXPECT_EQ(a.edges, b.edges);
}

TEST(Histograms, CountNumpysBins) {
  FixedHistogram histogram(-1, 1, 4, false);
  histogram.add(std::vector<float>{-1, -0.5f, -0.25f, 0, 0.49f, 0.5f, 1});
  EXPECT_EQ(histogram.histogram().edges, (std::vector<float>{-1, -0.5f, 0, 0.5f, 1}));
  EXPECT_EQ(histogram.histogram().counts, (std::vector<int64_t>{1, 2, 2, 2}));
  FixedHistogram magnitudes(0, 1, 2, true);
  magnitudes.add(std::vector<float>{-1, -0.5f, 0.25f});
  EXPECT_EQ(magnitudes.histogram().counts, (std::vector<int64_t>{1, 2}));
}

// Edge by edge and beside it, where the quotient may be a bin off.
TEST(Histograms, FixedBinsAreRightAtTheirEdges) {
  for (int bins : {7, 128, 2048}) {
    const std::vector<float> edges = uniform_edges(-0.7f, 0.9f, bins);
    std::vector<float> values;
    for (float e : edges)
      for (float v : {std::nextafter(e, -2.0f), e, std::nextafter(e, 2.0f)})
        if (v >= edges.front() && v <= edges.back()) values.push_back(v);
    std::vector<int64_t> expected(static_cast<size_t>(bins));
    for (float v : values) {
      auto above = std::upper_bound(edges.begin() + 1, edges.end() - 1, v);
      ++expected[static_cast<size_t>(above - edges.begin()) - 1];
    }
    FixedHistogram histogram(-0.7f, 0.9f, bins, false);
    histogram.add(values);
    EXPECT_EQ(histogram.histogram().counts, expected) << bins;
  }
}

TEST(Histograms, EveryProcessorNumbersBinsAlike) {
  std::vector<float> values = normals(1001, 3, 1);
  values.insert(values.end(), {0.0f, -0.0f, 6.0f, -6.0f, 1e-42f, -1e-42f, 0.25f, -0.25f});
  const size_t n = values.size();
  const BinFunctions &fast = bin_functions(), &plain = portable_bin_functions();
  std::vector<int32_t> a(n), b(n);
  fast.even(values.data(), n, {64, 2048}, a.data());
  plain.even(values.data(), n, {64, 2048}, b.data());
  EXPECT_EQ(a, b);
  fast.clipped(values.data(), n, {0, 6, {256, 2048}, {1 / 512.0f, 6144}}, a.data());
  plain.clipped(values.data(), n, {0, 6, {256, 2048}, {1 / 512.0f, 6144}}, b.data());
  EXPECT_EQ(a, b);
  for (bool magnitudes : {false, true}) {
    const FixedBins bins{-11, 90, 0.5f, 1999.5f, 990.5f, 1e-3f, magnitudes};
    std::vector<float> rest_a(n), rest_b(n);
    EXPECT_EQ(fast.fixed(values.data(), n, bins, a.data(), rest_a.data()),
              plain.fixed(values.data(), n, bins, b.data(), rest_b.data()));
    EXPECT_EQ(a, b);
    EXPECT_EQ(rest_a, rest_b);
  }
}

TEST(GrowingHistogram, DoesNotDependOnTheOrder) {
  const std::vector<float> small = normals(500, 0.1f, 2), zeros(10, 0.0f), large = normals(500, 40, 3);
  GrowingHistogram up(128), down(128);
  for (const auto& values : {zeros, small, large}) up.add(values, magnitude(values));
  for (const auto& values : {large, zeros, small}) down.add(values, magnitude(values));
  expect_equal(up.histogram(), down.histogram());
  expect_equal(up.magnitudes(), down.magnitudes());
}

TEST(GrowingHistogram, OfZerosHasOneBin) {
  GrowingHistogram histogram(128);
  histogram.add(std::vector<float>(7, 0.0f), 0);
  expect_equal(histogram.histogram(), {{7}, {0, 0}});
}

// A tensor and its clipped self, counted together and apart.
TEST(ClippedHistogram, IsTheTwoHistograms) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<std::vector<float>> pieces{std::vector<float>(5, 0.0f),
                                               normals(700, 0.5f, 4),
                                               normals(700, 30, 5),
                                               normals(300, 2, 6),
                                               {-1e-42f, 8, 4, -4, 6, -0.0f}};
  for (auto [lowest, highest] : {std::pair{0.0f, kInfinity}, {0.0f, 6.0f}, {-4.0f, 4.0f}, {-kInfinity, 0.0f}}) {
    ClippedHistogram both(256, lowest, highest);
    GrowingHistogram before(256), after(256), apart_before(256), apart_after(256);
    for (const auto& values : pieces) {
      const std::vector<float> cut = clipped(values, lowest, highest);
      both.add(values, magnitude(values), magnitude(cut));
      apart_before.add(values, magnitude(values));
      apart_after.add(cut, magnitude(cut));
    }
    both.add_to(before, after);
    expect_equal(before.histogram(), apart_before.histogram());
    expect_equal(after.histogram(), apart_after.histogram());
  }
}

// What percentile_range() makes of the whole histogram, of tails that were asked for before the values came.
class TailsOf : public testing::Test {
 protected:
  struct Case {
    double percentile;
    bool symmetric;
  };

  // The range from the tails, nothing where they leave it open; fails where it is not that of the histogram.
  static std::optional<Range> expect_same(const std::vector<float>& values, Case c, size_t expected_values) {
    float first = -magnitude(values), last = magnitude(values), lowest = values[0], highest = values[0];
    if (c.symmetric) first = last;
    for (float v : values) {
      if (c.symmetric) first = std::min(first, std::abs(v));
      lowest = std::min(lowest, v);
      highest = std::max(highest, v);
    }
    constexpr int kBins = 2048;
    FixedHistogram whole(first, last, kBins, c.symmetric);
    whole.add(values);
    const Range expected = percentile_range(whole.histogram(), lowest, highest, c.percentile, c.symmetric);
    Tails tails(Tails::wanted(static_cast<int64_t>(expected_values), c.percentile, c.symmetric), c.symmetric);
    for (size_t begin = 0; begin < values.size(); begin += 5000)
      tails.add(std::span(values).subspan(begin, std::min<size_t>(5000, values.size() - begin)));
    auto decided = tails.decided(FixedHistogram(first, last, kBins, c.symmetric), c.percentile);
    if (!decided) return {};
    const Range found = percentile_range(*decided, lowest, highest, c.percentile, c.symmetric);
    EXPECT_EQ(found.lowest, expected.lowest) << c.percentile << c.symmetric;
    EXPECT_EQ(found.highest, expected.highest) << c.percentile << c.symmetric;
    return found;
  }

  static constexpr Case kCases[] = {{99.999, true},  {99.99, true}, {99, true},  {80, true}, {50, true},
                                    {99.999, false}, {99.9, false}, {90, false}, {60, false}};
};

TEST_F(TailsOf, ManyValuesSayTheSame) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    std::vector<float> values = normals(437'531, 1 + static_cast<float>(seed), seed);
    if (seed % 2 == 1)  // after a Clip: many zeros, many values at the bound
      for (float& v : values) v = std::min(std::max(v, 0.0f), 6.0f);
    if (seed % 3 == 2)
      for (size_t i = 0; i < values.size(); i += 70'000) values[i] *= 40;  // outliers, which make bins wide
    for (Case c : kCases) EXPECT_TRUE(expect_same(values, c, values.size())) << seed << " " << c.percentile;
  }
}

TEST_F(TailsOf, FewValuesAreAllKept) {
  for (Case c : kCases) EXPECT_TRUE(expect_same(normals(100'000, 2, 1), c, 100'000));
  for (Case c : kCases) EXPECT_TRUE(expect_same({0.5f}, c, 1));
  for (Case c : kCases) EXPECT_TRUE(expect_same(std::vector<float>(300'000, 0.25f), c, 300'000));
}

// One value in 100,000 is to be cut off, and the largest has a bin to itself: rounding decides in which the share is
// reached.
TEST_F(TailsOf, WhatRoundingDecidesIsLeftOpen) {
  std::vector<float> values = normals(400'000, 1, 3);
  std::ranges::sort(values, {}, [](float v) { return std::abs(v); });
  for (size_t i = 0; i < 4; ++i) values[values.size() - 1 - i] = 50;
  EXPECT_FALSE(expect_same(values, {99.999, true}, values.size()));
}

TEST_F(TailsOf, TooFewValuesAreNoticed) {
  EXPECT_FALSE(expect_same(normals(3'000'000, 1, 4), {99.9, true}, 300'000));
  EXPECT_FALSE(expect_same(normals(3'000'000, 1, 4), {99.9, false}, 300'000));
}

}  // namespace
}  // namespace seqto::internal
