#include "quantization/improve/channel_noise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace seqto::internal {
namespace {

// As the header has it, with the true maximum and equal gains.
double noise_of_activation(const ChannelNoise::Activation& a, const std::vector<double>& factors) {
  double step = 0, noise = 0, signal = 0;
  for (size_t c = 0; c < factors.size(); ++c) {
    step = std::max(step, a.reach[c] / factors[c] / 255);
    noise += factors[c] * factors[c];
    signal += a.squares[c];
  }
  return step * step * noise / signal;
}

TEST(ChannelNoise, ActivationsAloneAreMadeEven) {
  ChannelNoise noise{.slots = 3, .activations = {{{0, 1, 2}, {1, 4, 16}, {0.1, 1, 20}}}, .readers = {}};
  noise.readers.push_back({{0, 1, 2}, {0.1, 1, 20}, {1, 1, 1}, {}, 1});  // a depthwise layer: every column has a scale
  const auto factors = quietest_factors(noise);
  EXPECT_NEAR(factors[0] * factors[1] * factors[2], 1, 1e-6);
  // Every channel at the end of the range is the best that there is.
  const auto of = [&](const std::vector<double>& f) { return noise_of_activation(noise.activations[0], f); };
  EXPECT_LT(of(factors), 1.1 * of({0.25, 1, 4}));
  EXPECT_GT(of({1, 1, 1}), 2 * of({0.25, 1, 4}));
}

TEST(ChannelNoise, WeightsAloneAreMadeEven) {
  ChannelNoise noise{.slots = 2, .activations = {}, .readers = {}};
  noise.readers.push_back({{0, 1}, {1, 1}, {100, 1}, {{10, 1}}, 1});
  const auto factors = quietest_factors(noise);
  const auto of = [](double f, double g) {
    const double step = std::max(10 * f, g);
    return step * step * (1 / f / f + 1 / g / g);
  };
  EXPECT_LT(of(factors[0], factors[1]), 1.1 * of(0.1, 1));
  EXPECT_GT(of(1, 1), 1.9 * of(0.1, 1));
}

// Where one scale serves all rows of the weight that writes a tensor, a large row takes steps from the small ones.
TEST(ChannelNoise, AWeightWithOneScaleIsMadeEvenWithTheTensorThatItWrites) {
  const ChannelNoise::Activation tensor{{0, 1}, {1, 1}, {1, 1}};
  ChannelNoise noise{.slots = 2, .activations = {tensor}, .readers = {}};
  noise.readers.push_back({{0, 1}, {1, 1}, {1, 1}, {}, 1});
  EXPECT_NEAR(quietest_factors(noise)[0], 1, 0.1);
  noise.activations.push_back({{0, 1}, {16, 1}, {1, 1}, 127, 4});
  const auto factors = quietest_factors(noise);
  // What the sum of both is least under, by trying them all.
  const auto of = [&](double ratio) {
    const double f = std::sqrt(ratio);
    double sum = 0;
    for (const auto& a : noise.activations) {
      const double step = std::max(a.reach[0] / f, a.reach[1] * f) / a.levels;
      sum += step * step * a.terms * (f * f + 1 / f / f) / 2;
    }
    return sum;
  };
  double least = of(1);
  for (double ratio = 1; ratio < 32; ratio *= 1.05) least = std::min(least, of(ratio));
  EXPECT_LT(of(factors[0] / factors[1]), 1.1 * least);
  EXPECT_GT(of(1), 1.5 * least);
}

TEST(ChannelNoise, BoundedFactorsKeepToTheirBounds) {
  ChannelNoise noise{.slots = 3, .activations = {{{0, 1, 2}, {1, 4, 16}, {1, 16, 256}}}, .readers = {}};
  noise.readers.push_back({{0, 1, 2}, {1, 16, 256}, {1, 1, 1}, {}, 1});
  noise.least = {0.5, 0.1, 1};
  const auto factors = quietest_factors(noise);
  EXPECT_NEAR(factors[0], 0.5, 1e-6);   // 1/16 would be best
  EXPECT_NEAR(factors[1], 0.25, 0.05);  // as far as the largest channel reaches
  EXPECT_EQ(factors[2], 1);
}

TEST(ChannelNoise, AChannelThatIsNeverUsedDrownsNone) {
  ChannelNoise noise{.slots = 2, .activations = {{{0, 1}, {0, 1}, {0, 1}}}, .readers = {}};
  noise.readers.push_back({{0, 1}, {0, 1}, {1, 1}, {}, 1});
  for (double f : quietest_factors(noise)) {
    EXPECT_GE(f, 1.0 / 16);
    EXPECT_LE(f, 16);
  }
}

TEST(ChannelNoise, NothingToGoByLeavesEverything) {
  for (double f : quietest_factors({.slots = 2, .activations = {{{0, 1}, {0, 0}, {0, 0}}}, .readers = {}}))
    EXPECT_EQ(f, 1);
}

}  // namespace
}  // namespace seqto::internal
