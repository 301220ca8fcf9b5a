#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "seqto/error.h"
#include "seqto/search.h"

namespace seqto {
namespace {

const double kNan = std::nan("");
const double kInf = std::numeric_limits<double>::infinity();

using Indices = std::vector<size_t>;
using Points = std::vector<Point>;

// Small integers, so that ties and equal points are common.
Points random_points(std::mt19937& random, size_t count, size_t axes) {
  std::uniform_int_distribution<int> coordinate(0, 6);
  Points points(count, Point(axes));
  for (Point& point : points) {
    for (double& value : point) value = coordinate(random);
  }
  return points;
}

// Inclusion and exclusion over all subsets: what a subset dominates in common is one box.
double volume_by_subsets(const Points& points, const Point& reference) {
  double volume = 0;
  for (unsigned subset = 1; subset < 1u << points.size(); ++subset) {
    double box = -1;
    for (size_t axis = 0; axis < reference.size(); ++axis) {
      double corner = -kInf;
      for (size_t i = 0; i < points.size(); ++i) {
        if (subset >> i & 1) corner = std::max(corner, points[i][axis]);
      }
      box *= std::max(0.0, reference[axis] - corner);
    }
    volume += __builtin_popcount(subset) % 2 ? -box : box;
  }
  return volume;
}

TEST(Dominates, Table) {
  EXPECT_TRUE(dominates({1, 2}, {1, 3}));
  EXPECT_TRUE(dominates({0, 0}, {1, 3}));
  EXPECT_FALSE(dominates({1, 2}, {1, 2}));
  EXPECT_FALSE(dominates({1, 3}, {2, 2}));
  EXPECT_FALSE(dominates({1, kNan}, {2, 2}));
  EXPECT_FALSE(dominates({1, 1}, {2, kNan}));
  EXPECT_TRUE(dominates({1, 1}, {1, kInf}));
  EXPECT_FALSE(dominates({}, {}));
}

TEST(ParetoFront, KnownAnswers) {
  EXPECT_EQ(pareto_front(Points{}), Indices{});
  EXPECT_EQ(pareto_front(Points{{3, 4}}), Indices{0});
  EXPECT_EQ(pareto_front(Points{{1, 1}, {1, 1}, {1, 1}}), Indices{0});
  EXPECT_EQ(pareto_front(Points{{3, 1}, {2, 2}, {3, 3}, {1, 3}, {2, 2}}), (Indices{0, 1, 3}));
  EXPECT_EQ(pareto_front(Points{{kNan, 0}, {1, 1}, {kInf, 0}}), (Indices{1, 2}));
  EXPECT_EQ(pareto_front(Points{{5}, {4}, {4}}), Indices{1});
}

TEST(ParetoFront, HoldsExactlyWhatNothingDominates) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const Points points = random_points(random, round % 25, 1 + round % 4);
    const Indices front = pareto_front(points);
    EXPECT_TRUE(std::ranges::is_sorted(front));
    for (size_t i = 0; i < points.size(); ++i) {
      bool expected = true;
      for (size_t j = 0; j < points.size(); ++j) {
        if (dominates(points[j], points[i]) || (j < i && points[j] == points[i])) expected = false;
      }
      EXPECT_EQ(std::ranges::count(front, i), expected);
    }
  }
}

TEST(NearestToIdeal, KnownAnswers) {
  // Scaled to 0..100: (0,100) 100, (50,50) 70.7, (100,0) 100, (25,25) 35.4.
  const Points points{{10, 5}, {20, 3}, {30, 1}, {15, 2}};
  EXPECT_EQ(nearest_to_ideal(points, 3), (Indices{3, 1, 0}));
  EXPECT_EQ(nearest_to_ideal(points, 9), (Indices{3, 1, 0, 2}));
  EXPECT_EQ(nearest_to_ideal(points, 0), Indices{});
  EXPECT_EQ(nearest_to_ideal(Points{}, 3), Indices{});
  EXPECT_EQ(nearest_to_ideal(Points{{1, 2}}, 3), Indices{0});
  EXPECT_EQ(nearest_to_ideal(Points{{7, 2}, {7, 1}, {7, 3}}, 1), Indices{1});  // a constant objective
  EXPECT_EQ(nearest_to_ideal(Points{{kNan, 0}, {kInf, 0}, {1, 1}, {2, 0}}, 4), (Indices{2, 3, 0, 1}));
}

TEST(Hypervolume, KnownAnswers) {
  EXPECT_EQ(hypervolume(Points{}, {1, 1}), 0);
  EXPECT_EQ(hypervolume(Points{{2}, {5}}, {10}), 8);
  EXPECT_EQ(hypervolume(Points{{1, 3}, {2, 2}, {3, 1}}, {4, 4}), 6);
  EXPECT_EQ(hypervolume(Points{{1, 3}, {1, 3}, {3, 3}}, {4, 4}), 3);
  EXPECT_EQ(hypervolume(Points{{4, 0}, {0, 4}, {9, 9}, {kNan, 1}, {1, kInf}}, {4, 4}), 0);
  EXPECT_EQ(hypervolume(Points{{0, 0, 1}, {1, 1, 0}}, {2, 2, 2}), 5);
  EXPECT_EQ(hypervolume(Points{{0, 0, 0, 0}, {-1, 1, 1, 1}}, {2, 2, 2, 2}), 17);
}

TEST(Hypervolume, EqualsInclusionAndExclusion) {
  std::mt19937 random(11);
  for (int round = 0; round < 400; ++round) {
    const size_t axes = 1 + round % 4;
    const Points points = random_points(random, round % 9, axes);
    const Point reference(axes, 5.0);
    EXPECT_EQ(hypervolume(points, reference), volume_by_subsets(points, reference)) << round;
  }
}

TEST(Objective, ByName) {
  const Measurement measurement{.size_bytes = 12,
                                .latency = {.median_ns = 34},
                                .losses = {.kl = 0.5, .cosine = 0.25},
                                .metrics = {{"top1", 0.75}}};
  EXPECT_EQ(objective(measurement, "size"), 12);
  EXPECT_EQ(objective(measurement, "latency"), 34);
  EXPECT_EQ(objective(measurement, "kl"), 0.5);
  EXPECT_EQ(objective(measurement, "cosine"), 0.25);
  EXPECT_EQ(objective(measurement, "top1"), 0.25);
  try {
    objective(measurement, "speed");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUsage);
    const std::string text = error.what();
    EXPECT_TRUE(text.starts_with("[tune] objective 'speed' found; one of size, latency, decode_latency, kl, "));
    EXPECT_TRUE(text.ends_with(", top1 expected"));
  }
}

}  // namespace
}  // namespace seqto
