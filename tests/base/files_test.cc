// Files appear whole or not at all, also when the writer is killed.
#include "base/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <vector>

#include "base/descriptor.h"
#include "seqto/error.h"

namespace seqto {
namespace {

namespace fs = std::filesystem;

size_t files_in(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(PendingFile, NothingIsSeenBeforeTheCommit) {
  TemporaryFolder folder;
  fs::path path = folder.path / "sub" / "f";
  write_file_atomic(path, "old");
  {
    PendingFile file(path);
    file.write("new");
    EXPECT_EQ(read_file(path), "old");
  }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(files_in(path.parent_path()), 1u) << "given up without a commit: the temporary file is gone";
  PendingFile file(path);
  file.write("ne");
  file.write("w");
  file.commit();
  EXPECT_EQ(read_file(path), "new");
}

TEST(PendingFile, AKilledWriterLeavesTheOldFileAndItsRestIsSweptAway) {
  TemporaryFolder folder;
  fs::path path = folder.path / "f";
  write_file_atomic(path, "old");
  pid_t child = ::fork();
  if (child == 0) {
    PendingFile file(path);
    file.write("half");
    ::raise(SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(files_in(folder.path), 2u);
  // A file is taken for abandoned after five seconds without a lock; a living writer's never is.
  ::sleep(6);
  PendingFile alive(path);
  EXPECT_EQ(files_in(folder.path), 2u) << "the old file and the living writer's";
  write_file_atomic(path, "new");
  EXPECT_EQ(files_in(folder.path), 2u);
  alive.write("newest");
  alive.commit();
  EXPECT_EQ(read_file(path), "newest");
}

// A pipe has no size: it would be read as empty. A rename would put a file in its place, or in that of /dev/null.
TEST(Files, WhatIsNoFileIsNeitherReadNorReplaced) {
  TemporaryFolder folder;
  const fs::path pipe = folder.path / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const Descriptor open(::open(pipe.c_str(), O_RDWR | O_CLOEXEC));  // so that nobody waits for the other end
  EXPECT_THROW(read_file(pipe), Error);
  EXPECT_THROW(write_file_atomic(pipe, "text"), Error);
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_EQ(files_in(folder.path), 1u);
}

TEST(MappedFile, ReleasedBytesComeBack) {
  TemporaryFolder folder;
  write_file_atomic(folder.path / "f", std::string(100000, 'a') + "b");
  MappedFile file(folder.path / "f");
  file.release(file.bytes());
  file.release(file.bytes().subspan(99999, 2));
  EXPECT_EQ(static_cast<char>(file.bytes()[100000]), 'b');
  EXPECT_EQ(static_cast<char>(file.bytes()[5000]), 'a');
}

TEST(MappedFile, DroppedBytesLeaveTheCacheAndComeBack) {
  TemporaryFolder folder;
  const fs::path path = folder.path / "f";
  write_file_atomic(path, std::string(1 << 20, 'a') + "b");
  const Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::fsync(descriptor.get()), 0);  // what is not on the disk yet stays
  struct statfs on{};
  ASSERT_EQ(::fstatfs(descriptor.get(), &on), 0);
  if (on.f_type == TMPFS_MAGIC) GTEST_SKIP() << "files of this folder are nowhere but in memory";
  const MappedFile file(path);
  const auto in_cache = [&] {
    std::vector<unsigned char> pages((file.bytes().size() + 4095) / 4096);
    EXPECT_EQ(::mincore(const_cast<std::byte*>(file.bytes().data()), file.bytes().size(), pages.data()), 0);
    return std::ranges::count_if(pages, [](unsigned char page) { return (page & 1) != 0; });
  };
  EXPECT_EQ(static_cast<char>(file.bytes()[5000]), 'a');
  file.release(file.bytes());
  EXPECT_GT(in_cache(), 0);
  file.drop(file.bytes());
  EXPECT_LT(in_cache(), 2) << "the last page, which is no whole one, may stay";
  EXPECT_EQ(static_cast<char>(file.bytes()[1 << 20]), 'b');
}

}  // namespace
}  // namespace seqto
