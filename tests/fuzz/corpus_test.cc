// Each target reads its seeds, and what was once found.
#include <gtest/gtest.h>

#include <chrono>
#include <ostream>

#include "base/files.h"
#include "fuzz/targets.h"

namespace seqto::fuzz {

void PrintTo(const FuzzTarget& target, std::ostream* out) { *out << target.name; }

namespace {

class Corpus : public testing::TestWithParam<FuzzTarget> {};

TEST_P(Corpus, IsReadOrRefused) {
  const std::filesystem::path seeds = std::filesystem::path(SEQTO_SOURCE_DIR) / "tests/fuzz/corpus" / GetParam().name;
  ASSERT_FALSE(std::filesystem::is_empty(seeds)) << "make_corpus.py makes them";
  for (const auto& seed : std::filesystem::directory_iterator(seeds)) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_NO_THROW(GetParam().read(read_file(seed.path()))) << seed.path();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10)) << seed.path();
  }
}

INSTANTIATE_TEST_SUITE_P(Fuzz, Corpus, testing::ValuesIn(targets().begin(), targets().end()),
                         [](const auto& target) { return std::string(target.param.name); });

}  // namespace
}  // namespace seqto::fuzz
