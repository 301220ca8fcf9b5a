#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/extremes.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/statistics.h"
#include "seqto/error.h"

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
