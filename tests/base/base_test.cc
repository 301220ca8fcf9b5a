#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>
#include <set>
#include <span>
#include <vector>

#include "base/extremes.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/statistics.h"
#include "seqto/error.h"
#include "seqto/statistics.h"

namespace seqto {
namespace {

namespace fs = std::filesystem;

TEST(Sha256, KnownAnswers) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Quantile, InterpolatesAsNumpy) {
  EXPECT_DOUBLE_EQ(quantile({4, 1, 3, 2}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile({4, 1, 3, 2}, 0.1), 1.3);
  EXPECT_DOUBLE_EQ(quantile({7}, 0.9), 7);
}

// scipy.stats.beta.ppf(0.975, count + 1, samples - count)
TEST(MostOf, IsClopperAndPearsons) {
  EXPECT_NEAR(most_of(0, 400), 0.00917980458366526, 1e-12);
  EXPECT_NEAR(most_of(1, 400), 0.013849769962013272, 1e-12);
  EXPECT_NEAR(most_of(2, 500), 0.014374078562200309, 1e-12);
  EXPECT_NEAR(most_of(50, 100), 0.601678870496699, 1e-12);
  EXPECT_EQ(most_of(10, 10), 1);
}

TEST(Expansion, IsStudentsOverTheNormals) {
  EXPECT_NEAR(expansion(2), std::sqrt(2.0) * 12.706 / 1.96, 1e-12);
  EXPECT_NEAR(expansion(1000), 1, 0.003);
}

TEST(Statistics, BootstrapIntervalCoversTheMean) {
  // Skewed, as losses are: the mean is 1.
  std::mt19937_64 engine(7);
  int covered = 0;
  double width = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<double> values;
    for (int i = 0; i < 60; ++i)
      values.push_back(-std::log((static_cast<double>(engine() >> 11) + 1) / 9007199254740993.0));
    const Interval interval = bootstrap_mean(values);
    covered += interval.holds(1);
    width += (interval.high - interval.low) / 200;
  }
  EXPECT_GE(covered, 176);  // 88 %: the percentile method is a little narrow on skewed data
  EXPECT_LE(covered, 198);
  EXPECT_NEAR(width, 2 * 1.96 / std::sqrt(60.0), 0.05);
}

TEST(Statistics, BootstrapIntervalIsTheSameAgain) {
  const std::vector<double> values{1, 5, 2, 8, 4};
  EXPECT_EQ(bootstrap_mean(values), bootstrap_mean(values));
  EXPECT_EQ(bootstrap_mean(std::vector<double>{3}), (Interval{3, 3}));
  EXPECT_EQ(bootstrap_mean({}), (Interval{0, 0}));
}

// 30 files of 8 windows, of one file nearly the same value: as if there were 30 values.
TEST(Statistics, WindowsOfOneFileAreDrawnTogether) {
  std::mt19937_64 engine(5);
  std::normal_distribution<double> files, windows(0, 0.1);
  int alone = 0, together = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<double> values;
    std::vector<Origin> origins;
    for (int file = 0; file < 30; ++file) {
      const double mean = files(engine);
      for (int window = 0; window < 8; ++window) {
        values.push_back(mean + windows(engine));
        origins.push_back({file, window});
      }
    }
    alone += bootstrap_mean(values).holds(0);
    together += bootstrap_mean(values, blocks_of(origins)).holds(0);
  }
  EXPECT_LT(alone, 130);
  EXPECT_GE(together, 180);
  EXPECT_LE(together, 198);
}

TEST(Statistics, BlocksFollowEachOtherInTheirFile) {
  EXPECT_EQ(blocks_of({}), Blocks());
  EXPECT_EQ(blocks_of(std::vector<Origin>{{-1, 0}, {-1, 1}, {3, 0}}), Blocks());
  // 40 samples: at most 2 a block, in the order of their positions and not of the samples.
  std::vector<Origin> origins;
  for (int i = 0; i < 40; ++i) origins.push_back({i < 4 ? 7 : -1, 4 - i});
  const Blocks blocks = blocks_of(origins);
  ASSERT_EQ(blocks.size(), 40U);
  EXPECT_EQ(blocks[3], blocks[2]);
  EXPECT_EQ(blocks[1], blocks[0]);
  EXPECT_NE(blocks[2], blocks[1]);
  EXPECT_EQ(std::set<int64_t>(blocks.begin(), blocks.end()).size(), 38U);
}

TEST(Statistics, ResamplesOfBlocksDrawThemWhole) {
  int resamples = 0;
  const auto visit = [&](std::span<const double> counts) {
    EXPECT_EQ(counts[0], counts[2]);
    EXPECT_EQ(counts[0] + counts[1] + counts[3], 3);
    ++resamples;
  };
  for_each_resample(4, 50, visit, {5, 8, 5, 9});
  EXPECT_EQ(resamples, 50);
}

TEST(Statistics, McNemarIsTheBinomialTest) {  // scipy.stats.binomtest(1, 10).pvalue ...
  EXPECT_NEAR(mcnemar(1, 9), 0.021484375, 1e-12);
  EXPECT_NEAR(mcnemar(30, 14), 0.022628841205914796, 1e-12);
  EXPECT_DOUBLE_EQ(mcnemar(5, 5), 1);
  EXPECT_DOUBLE_EQ(mcnemar(0, 0), 1);
}

TEST(WriteFile, ReplacesWholeAndLeavesNothingOnFailure) {
  fs::path dir = fs::temp_directory_path() / "seqto_base_test";
  fs::remove_all(dir);
  write_file_atomic(dir / "deep" / "file", "one");
  write_file_atomic(dir / "deep" / "file", "two");
  EXPECT_EQ(read_file(dir / "deep" / "file"), "two");
  fs::create_directories(dir / "taken");
  EXPECT_THROW(write_file_atomic(dir / "taken", "a folder has this name"), Error);
  EXPECT_THROW(write_file_atomic(dir / "deep" / "file" / "below", "a file is no folder"), Error);
  size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(dir)) files += entry.is_regular_file();
  EXPECT_EQ(files, 1u);
  fs::remove_all(dir);
}

TEST(ReadFile, NamesWhatIsMissing) {
  try {
    read_file("/nowhere/at/all");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidInput);
    EXPECT_NE(std::string(error.what()).find("/nowhere/at/all"), std::string::npos);
  }
  EXPECT_THROW(read_file("/tmp"), Error);
}

TEST(ClipValues, LeavesWhatLiesBetweenAndNaN) {
  std::vector<float> values;
  for (int i = -50; i < 50; ++i) values.push_back(static_cast<float>(i) / 4);
  values.push_back(std::nanf(""));
  std::vector<float> apart(values.size());
  internal::clip_values(values.data(), values.size(), 0, 6, apart.data());
  for (size_t i = 0; i + 1 < values.size(); ++i) EXPECT_EQ(apart[i], std::clamp(values[i], 0.0f, 6.0f));
  EXPECT_TRUE(std::isnan(apart.back()));
  internal::clip_values(values.data(), values.size(), 0, 6, values.data());
  for (size_t i = 0; i + 1 < values.size(); ++i) EXPECT_EQ(values[i], apart[i]);
}

}  // namespace
}  // namespace seqto
