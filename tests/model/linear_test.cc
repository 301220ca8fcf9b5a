// What grew with the square of a model's size.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ctime>
#include <functional>

#include "seqto/model.h"

namespace seqto {
namespace {

// Seconds of this process, the best of some runs.
double seconds(const std::function<void()>& run) {
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const std::clock_t begin = std::clock();
    run();
    best = std::min(best, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return best;
}

// Four times as much takes some four times as long; sixteen times is what the bound is for.
void expect_linear(const std::function<std::function<void()>(int)>& work, int size) {
  const double once = seconds(work(size)), four_times = seconds(work(4 * size));
  EXPECT_LT(four_times, 8 * once + 0.3) << once;
}

TEST(Linear, NamesOfManyNodesOfOneName) {
  expect_linear(
      [](int size) {
        Model model;
        for (int i = 0; i < size; ++i)
          model.graph.nodes.push_back({"same", "Relu", "", {"x"}, {fmt::format("y{}", i)}, {}, {}});
        return [model] {
          Model copy = model;
          name_nodes(copy);
          EXPECT_EQ(copy.graph.nodes[1].name, "same_1");
        };
      },
      5'000);
}

TEST(Linear, CapturesOfABody) {
  expect_linear(
      [](int size) {
        std::string inputs, nodes;
        for (int i = 0; i < size; ++i) {
          inputs += fmt::format("{}o{}", i ? ", " : "", i);
          nodes += fmt::format("o{} = Relu(x) ", i);
        }
        std::string bytes = serialize(
            parse_model_text("<ir_version: 8, opset_import: [\"\" : 17]> g (bool c, float[4] x) => (float[4] y) { " +
                             nodes + "y = If(c) <then_branch = t () => (float[4] r) { r = Sum(" + inputs +
                             ") }, else_branch = e () => (float[4] n) { n = Neg(x) }> }"));
        return [bytes] { parse_model(bytes); };
      },
      10'000);
}

}  // namespace
}  // namespace seqto
