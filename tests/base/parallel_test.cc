#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/parallel.h"

namespace seqto {
namespace {

TEST(ForEachInOrder, ResultsComeInOrder) {
  std::vector<size_t> order;
  std::atomic<int> at_once = 0, most = 0;
  for_each_in_order(
      20, 4,
      [&](size_t i) {
        most = std::max<int>(most, ++at_once);
        std::this_thread::sleep_for(std::chrono::milliseconds(i % 3));
        --at_once;
      },
      [&](size_t i) { order.push_back(i); });
  ASSERT_EQ(order.size(), 20u);
  for (size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], i);
  EXPECT_LE(most, 4);
  EXPECT_GE(most, 2);
}

TEST(ForEachInOrder, TheFirstExceptionEndsTheRest) {
  std::vector<size_t> done;
  std::atomic<size_t> begun = 0;
  const auto work = [&](size_t i) {
    ++begun;
    if (i == 3) throw std::runtime_error("three");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  EXPECT_THROW(for_each_in_order(1000, 2, work, [&](size_t i) { done.push_back(i); }), std::runtime_error);
  EXPECT_EQ(done, (std::vector<size_t>{0, 1, 2}));
  EXPECT_LT(begun, 100u);
  EXPECT_THROW(
      for_each_in_order(5, 2, [](size_t) {}, [](size_t) { throw std::runtime_error("done"); }), std::runtime_error);
  for_each_in_order(0, 2, work, [](size_t) { FAIL(); });
}

TEST(InParts, TogetherTheyAreTheWhole) {
  for (size_t count : {0, 1, 7, 1000})
    for (size_t least : {0, 1, 3, 2000}) {
      std::vector<std::atomic<int>> seen(count);
      std::atomic<size_t> shortest = count;
      in_parts(count, least, [&](size_t begin, size_t end) {
        shortest = std::min<size_t>(shortest, end - begin);
        for (size_t i = begin; i < end; ++i) ++seen[i];
      });
      for (const auto& times : seen) EXPECT_EQ(times, 1);
      EXPECT_GE(shortest, std::min(count, least));
    }
}

}  // namespace
}  // namespace seqto
