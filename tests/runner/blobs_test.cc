#include "runner/worker/blobs.h"

#include <gtest/gtest.h>

#include <set>

#include "base/hash.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

namespace fs = std::filesystem;

Tensor filled(size_t floats, float value) {
  return float_tensor({static_cast<int64_t>(floats)}, std::vector<float>(floats, value));
}

std::set<std::string> files(const BlobStore& store) {
  std::set<std::string> found;
  for (const fs::path& folder : store.folders())
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().filename() != "lock") found.insert(entry.path().filename().string());
  return found;
}

TEST(BlobStore, EqualContentsAreOneFileNamedByThem) {
  BlobStore store;
  BlobStore::Lease lease(store);
  Tensor tensor = filled(5000, 1);
  std::string name = lease.put(tensor);
  EXPECT_EQ(name, xxh3_hex(tensor.bytes()));
  EXPECT_EQ(lease.put(tensor), name);                      // the same bytes
  EXPECT_EQ(lease.put(filled(5000, 1)), name);             // equal ones
  EXPECT_EQ(lease.put(tensor.reshaped({50, 100})), name);  // the shape does not count
  EXPECT_NE(lease.put(filled(5000, 2)), name);
  EXPECT_EQ(files(store).size(), 2u);
  Blob blob = read_blob(store.folders(), name);
  EXPECT_TRUE(Tensor(DataType::kFloat, {5000}, blob.owner, blob.bytes).equals(tensor));
}

TEST(BlobStore, MemoryThatIsUsedAgainHasANewName) {
  BlobStore store;
  BlobStore::Lease lease(store);
  std::set<std::string> names;
  for (int i = 0; i < 50; ++i) names.insert(lease.put(filled(5000, static_cast<float>(i))));  // often at one address
  EXPECT_EQ(names.size(), 50u);
}

TEST(BlobStore, TheLongestUnusedMakesRoomAndWhatIsUsedStays) {
  BlobStore store(3 * 4000);  // three tensors of 1000 floats
  auto put = [&](float value) {
    BlobStore::Lease lease(store);
    return lease.put(filled(1000, value));
  };
  std::string one = put(1), two = put(2), three = put(3);
  put(1);
  std::string four = put(4);
  EXPECT_EQ(files(store), (std::set<std::string>{one, three, four}));
  BlobStore::Lease lease(store);
  std::set<std::string> held;
  for (float value : {5.0f, 6.0f, 7.0f, 8.0f}) held.insert(lease.put(filled(1000, value)));  // more than the limit
  EXPECT_EQ(files(store), held);
  EXPECT_EQ(put(2), two);  // written anew
}

TEST(BlobStore, ItsFoldersAreItsOwnAndGoWithIt) {
  BlobFolders folders;
  {
    BlobStore store, other;
    folders = store.folders();
    EXPECT_NE(folders, other.folders());
    for (const auto& folder : folders) {
      EXPECT_EQ(fs::status(folder).permissions(), fs::perms::owner_all);
      EXPECT_TRUE(fs::exists(folder));  // the other one did not take it for stale
    }
  }
  for (const auto& folder : folders) EXPECT_FALSE(fs::exists(folder));
}

TEST(ReadBlob, OnlyNamesInTheFolders) {
  BlobStore store;
  for (const char* name : {"", "nowhere", "../lock", "lock/", "/etc/passwd", "Lock", ".", "a b"}) {
    try {
      read_blob(store.folders(), name);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kInvalidInput);
    }
  }
}

TEST(ReadBlob, ABlobMayBeEmptyAndItsBytesOutliveTheFile) {
  BlobStore store;
  ASSERT_TRUE(write_blob(store.folders(), "empty", {}));
  EXPECT_TRUE(read_blob(store.folders(), "empty").bytes.empty());
  Tensor tensor = filled(5000, 3);
  ASSERT_TRUE(write_blob(store.folders(), "full", tensor.bytes()));
  Blob blob = read_blob(store.folders(), "full");
  remove_blob(store.folders(), "full");
  EXPECT_TRUE(Tensor(DataType::kFloat, {5000}, blob.owner, blob.bytes).equals(tensor));
}

}  // namespace
}  // namespace seqto::internal
