#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "metrics/loss/output_values.h"
#include "metrics/loss/softmax.h"
#include "seqto/metrics.h"

namespace seqto {
namespace {

// Every row as sure of its class as `sureness` says, noise of the given size upon it.
struct Pair {
  Outputs reference, candidate;
};
Pair pair_of(size_t rows, size_t columns, const std::function<double()>& sureness,
             const std::function<double()>& loudness, std::mt19937_64& engine) {
  std::normal_distribution<double> normal;
  Pair pair;
  for (size_t i = 0; i < rows; ++i) {
    std::vector<float> row(columns), noisy(columns);
    const double scale = sureness(), size = loudness();
    for (size_t c = 0; c < columns; ++c) {
      row[c] = static_cast<float>(scale * normal(engine));
      noisy[c] = row[c] + static_cast<float>(size * normal(engine));
    }
    pair.reference.append(row);
    pair.candidate.append(noisy);
  }
  return pair;
}

// Half of d' (diag(p) - p p') d, with the matrix written out.
double quadratic(std::span<const float> reference, const std::vector<double>& noise) {
  const std::vector<double> p = softmax(reference);
  double sum = 0;
  for (size_t a = 0; a < p.size(); ++a)
    for (size_t b = 0; b < p.size(); ++b) sum += noise[a] * ((a == b ? p[a] : 0) - p[a] * p[b]) * noise[b];
  return sum / 2;
}

TEST(PooledKl, IsTheMeanOverAllPairsWithTheLoudestFifthCutOff) {
  std::mt19937_64 engine(1);
  const Pair pair = pair_of(10, 7, [] { return 1.5; }, [] { return 0.1; }, engine);
  std::vector<double> costs;
  for (int64_t j = 0; j < 10; ++j) {
    std::vector<double> noise;
    for (size_t c = 0; c < 7; ++c)
      noise.push_back(static_cast<double>(pair.candidate.row(j)[c]) - pair.reference.row(j)[c] + 5);
    double sum = 0;  // what all logits have in common costs nothing
    for (int64_t i = 0; i < 10; ++i) sum += quadratic(pair.reference.row(i), noise);
    costs.push_back(sum / 10);
  }
  std::ranges::sort(costs);
  costs[9] = costs[8] = costs[7];
  double expected = 0;
  for (double cost : costs) expected += cost / 10;
  EXPECT_NEAR(pooled_kl(pair.reference, pair.candidate).value(), expected, 1e-9);
}

TEST(PooledKl, IsTheKlOfSmallNoiseWhereAllRowsAreAlike) {
  Outputs reference, candidate;
  for (int i = 0; i < 5; ++i) reference.append(std::vector<float>{2, 1, 0, -1});
  for (int i = 0; i < 5; ++i) candidate.append(std::vector<float>{2.01F, 0.98F, 0.005F, -1});
  EXPECT_NEAR(*pooled_kl(reference, candidate) / compare(reference, candidate).kl, 1, 0.01);
}

// Of the first rows alone, as a race leaves them: all references tell how sure the others are.
TEST(PooledKl, TakesTheCandidatesFirstRows) {
  std::mt19937_64 engine(2);
  const Pair pair = pair_of(8, 5, [] { return 2.0; }, [] { return 0.1; }, engine);
  Outputs first;
  first.append(pair.candidate.row(0));
  std::vector<double> noise;
  for (size_t c = 0; c < 5; ++c)
    noise.push_back(static_cast<double>(pair.candidate.row(0)[c]) - pair.reference.row(0)[c]);
  double expected = 0;
  for (int64_t i = 0; i < 8; ++i) expected += quadratic(pair.reference.row(i), noise) / 8;
  EXPECT_NEAR(pooled_kl(pair.reference, first).value(), expected, 1e-9);
}

TEST(PooledKl, NothingOfWhatIsNotFiniteOrNotThere) {
  Outputs reference, broken;
  reference.append(std::vector<float>{1, 2});
  broken.append(std::vector<float>{1, std::numeric_limits<float>::quiet_NaN()});
  EXPECT_FALSE(pooled_kl(reference, broken));
  EXPECT_FALSE(pooled_kl(reference, {}));
  Outputs empty;
  internal::append_outputs(empty, std::vector{float_tensor({1, 0, 2}, {})}, "[test]");
  EXPECT_FALSE(pooled_kl(reference, empty));
  EXPECT_EQ(pooled_kl(reference, reference), 0);
}

// What it is for: of two candidates, one a fifth louder, 32 rows tell which loses less on all others. Few rows are
// unsure, and a few are loud.
TEST(PooledKl, TellsTwoCandidatesApartMoreOftenThanKl) {
  std::mt19937_64 engine(3);
  std::uniform_real_distribution<double> share;
  const auto sureness = [&] { return share(engine) < 0.1 ? 1.0 : 6.0; };
  int by_kl = 0, by_both = 0;
  constexpr int kDraws = 200;
  for (int k = 0; k < kDraws; ++k) {
    std::vector<double> kl, both;
    for (double size : {0.1, 0.12}) {
      const auto loudness = [&] { return size * (share(engine) < 0.06 ? 3.0 : 1.0); };
      const Pair pair = pair_of(32, 10, sureness, loudness, engine);
      Measurement measured;
      measured.pooled_kl = pooled_kl(pair.reference, pair.candidate);
      kl.push_back(compare(pair.reference, pair.candidate).kl);
      both.push_back(steady_loss(measured, "kl", kl.back()));
    }
    by_kl += kl[0] < kl[1];
    by_both += both[0] < both[1];
  }
  EXPECT_GT(by_both, by_kl + kDraws / 20);
  EXPECT_GT(by_both, 0.75 * kDraws);
}

TEST(SteadyLoss, IsTheMeanWhereNothingWasPooledOrKlIsNotTheLoss) {
  Measurement measured;
  EXPECT_EQ(steady_loss(measured, "kl", 0.5), 0.5);
  measured.pooled_kl = 0.02;
  EXPECT_DOUBLE_EQ(steady_loss(measured, "kl", 0.5), 0.1);
  EXPECT_EQ(steady_loss(measured, "mse", 0.5), 0.5);
  EXPECT_EQ(steady_loss(measured, "kl", 0), 0);
}

TEST(PooledKl, IsKeptInTheStudy) {
  Trial trial{.id = "a", .part = Part::kSearch};
  trial.measurement.emplace().pooled_kl = 0.25;
  EXPECT_EQ(trial_from_json(trial_to_json(trial)).measurement->pooled_kl, 0.25);
  trial.measurement->pooled_kl = {};
  EXPECT_FALSE(trial_from_json(trial_to_json(trial)).measurement->pooled_kl);
}

}  // namespace
}  // namespace seqto
