// Lists of boxes, compared whatever their order and number.
#include <gtest/gtest.h>

#include <cmath>

#include "metrics/task/detections.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

constexpr char kDecoder[] =
    R"({"outputs": [{"name": "b", "scores": "s", "classes": "c"}], "decode": "found", "box": "xyxy"})";

struct Found {
  float left, top, right, bottom, score;
  int64_t label;
};

std::vector<float> row(const std::vector<Found>& all) {
  std::vector<float> boxes, scores;
  std::vector<int64_t> labels;
  for (const Found& f : all) {
    boxes.insert(boxes.end(), {f.left, f.top, f.right, f.bottom});
    scores.push_back(f.score);
    labels.push_back(f.label);
  }
  const auto n = std::ssize(all);
  const std::vector<Tensor> outputs{float_tensor({n, 4}, boxes), int64_tensor({n}, labels), float_tensor({n}, scores)};
  return make_box_rows(kDecoder, {"b", "c", "s"})->row(outputs);
}

double distance(const std::vector<Found>& a, const std::vector<Found>& b) {
  const std::vector<float> x = row(a), y = row(b);
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += std::pow(static_cast<double>(x[i]) - y[i], 2);
  return sum;
}

const Found kCat{0.1f, 0.2f, 0.5f, 0.6f, 0.9f, 3}, kDog{0.3f, 0.3f, 0.9f, 0.8f, 0.5f, 4};

TEST(BoxRows, OrderAndFaintBoxesDoNotCount) {
  EXPECT_EQ(distance({kCat, kDog}, {kDog, kCat}), 0);
  EXPECT_EQ(distance({kCat}, {kCat, {0, 0, 1, 1, 0.0005f, 1}}), 0);
  EXPECT_EQ(row({}).size(), row({kCat, kDog}).size());
}

TEST(BoxRows, WhatDiffersMoreIsFarther) {
  const auto moved = [](float by) {
    return Found{kCat.left + by, kCat.top, kCat.right + by, kCat.bottom, kCat.score, 3};
  };
  double last = 0;
  for (const float by : {0.001f, 0.004f, 0.01f, 0.03f}) {
    const double now = distance({kCat, kDog}, {moved(by), kDog});
    EXPECT_GT(now, last) << by;
    last = now;
  }
  EXPECT_GT(distance({kCat, kDog}, {kCat}), distance({kCat, kDog}, {kCat, {0.3f, 0.3f, 0.9f, 0.8f, 0.3f, 4}}));
  EXPECT_GT(distance({kCat}, {{0.1f, 0.2f, 0.5f, 0.6f, 0.9f, 2}}), 1) << "another class";
}

// Of one detection in a row of its own, and prototypes of 8 x 8.
double distance_behind(const char* decoder, const std::vector<float>& a, const std::vector<float>& b,
                       const std::vector<float>& prototypes, const std::vector<float>& others) {
  const auto rows = make_box_rows(decoder, {"rows", "p"});
  const auto row = [&](std::vector<float> behind, const std::vector<float>& values) {
    std::vector<float> all{0.1f, 0.2f, 0.5f, 0.6f, 0.9f, 3};
    all.insert(all.end(), behind.begin(), behind.end());
    return rows->row(std::vector{float_tensor({1, 1, std::ssize(all)}, all), float_tensor({1, 1, 8, 8}, values)});
  };
  const std::vector<float> x = row(a, prototypes), y = row(b, others);
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += std::pow(static_cast<double>(x[i]) - y[i], 2);
  return sum;
}

TEST(BoxRows, WhatStandsBehindTheBoxCounts) {
  const std::vector<float> all(64, 1), none(64, -1);
  std::vector<float> half = all;
  std::fill_n(half.begin(), 32, -1.0f);
  const auto masks = [&](float weight, const std::vector<float>& prototypes) {
    return distance_behind(R"({"decode": "found", "box": "xyxy", "masks": "p"})", {1}, {weight}, all, prototypes);
  };
  EXPECT_EQ(masks(0.5f, all), 0) << "the same pixels";
  EXPECT_GT(masks(-1, all), masks(1, half));
  EXPECT_GT(masks(1, half), 0);
  const auto points = [&](float x) {
    return distance_behind(R"({"decode": "found", "box": "xyxy", "keypoints": [1, 2]})", {0.3f, 0.3f}, {x, 0.3f}, none,
                           none);
  };
  EXPECT_GT(points(0.4f), points(0.31f));
  EXPECT_GT(points(0.31f), 0);
  const auto turned = [&](float by) {
    return distance_behind(R"({"decode": "found", "box": "xyxy", "angle": true})", {0.3f}, {by}, none, none);
  };
  EXPECT_GT(turned(0.5f), turned(0.32f));
  EXPECT_GT(turned(0.32f), 0);
}

TEST(BoxRows, GridsKeepTheirOrder) {
  EXPECT_EQ(make_box_rows(R"({"classes": 3})", {"y"}), nullptr);
  EXPECT_EQ(make_box_rows("", {"y"}), nullptr);
  const auto rows = make_box_rows(kDecoder, {"b", "c", "s"});
  const std::vector<Tensor> odd{float_tensor({2, 4}, std::vector<float>(8)), int64_tensor({1}, {0}),
                                float_tensor({2}, {1, 1})};
  EXPECT_THROW(rows->row(odd), Error);
}

TEST(Masks, PlacesThatAreNoNumbersCoverNothing) {
  const float nan = std::nanf("");
  const std::vector<float> prototypes(64, 1);
  const Prototypes eight{prototypes, 1, 8, 8};
  const auto covered = [&](float left, float top, float right, float bottom) {
    return mask_of({.box = {left, top, right, bottom}, .mask_weights = {1}}, eight).count();
  };
  EXPECT_EQ(covered(0, 0, 0.5f, 1), 32);
  EXPECT_EQ(covered(nan, nan, nan, nan), 0);
  EXPECT_EQ(covered(-INFINITY, -3, INFINITY, 9), 64);
  const std::vector<Outline> outline{{{0, -INFINITY}, {1, 0}, {1, INFINITY}}};
  EXPECT_LE(filled(outline, 8, 8).count(), 64);
  EXPECT_EQ(first_pixel(nan, 8), 0);
}

}  // namespace
}  // namespace seqto::internal
