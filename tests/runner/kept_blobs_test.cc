// What a worker behind a link keeps for later: within its limit, the longest unused goes first.
#include "runner/worker/kept_blobs.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <set>

#include "base/files.h"

namespace seqto::internal {
namespace {

namespace fs = std::filesystem;

class Kept : public testing::Test {
 protected:
  void add(const std::string& name, size_t bytes, int hours_ago = 0) {
    std::vector<std::byte> content(bytes, std::byte{7});
    blobs_.add(name, content);
    used(name, hours_ago);
  }
  void used(const std::string& name, int hours_ago) {
    fs::last_write_time(folder_.path / name, fs::file_time_type::clock::now() - std::chrono::hours(hours_ago));
  }
  std::set<std::string> files() const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_.path)) found.insert(entry.path().filename());
    found.erase("lock");
    return found;
  }
  TemporaryFolder folder_;
  KeptBlobs blobs_{folder_.path, 3000};
};

TEST_F(Kept, WhatWasAddedIsFound) {
  EXPECT_FALSE(blobs_.find("a"));
  add("a", 100);
  ASSERT_TRUE(blobs_.find("a"));
  EXPECT_EQ(blobs_.find("a")->bytes.size(), 100u);
  EXPECT_TRUE(KeptBlobs(folder_.path, 3000).find("a"));  // by a later worker
  EXPECT_FALSE(blobs_.find("../a"));
}

TEST_F(Kept, TheLongestUnusedGoes) {
  add("a", 1000, 3);
  add("b", 1000, 2);
  add("c", 1000, 1);
  blobs_.trim();
  EXPECT_EQ(files(), (std::set<std::string>{"a", "b", "c"}));
  blobs_.find("a");
  add("d", 1000);
  blobs_.trim();
  EXPECT_EQ(files(), (std::set<std::string>{"a", "c", "d"}));
}

TEST_F(Kept, WhatIsRemovedStaysReadableWhereItIsHeld) {
  add("a", 1000, 3);
  auto held = blobs_.find("a");
  KeptBlobs(folder_.path, 10).trim();  // another worker
  EXPECT_FALSE(blobs_.find("a"));
  EXPECT_EQ(held->bytes[999], std::byte{7});
}

TEST_F(Kept, UnfinishedFilesOfTheKilledGo) {
  for (const char* name : {"a.1-0", "b.2-0"}) std::ofstream(folder_.path / name) << "x";
  used("a.1-0", 2);
  blobs_.trim();
  EXPECT_EQ(files(), (std::set<std::string>{"b.2-0"}));
}

}  // namespace
}  // namespace seqto::internal
