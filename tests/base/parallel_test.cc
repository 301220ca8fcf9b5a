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

}  // namespace
}  // namespace seqto
