// Files appear whole or not at all, also when the writer is killed.
#include "base/files.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

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

TEST(MappedFile, ReleasedBytesComeBack) {
  TemporaryFolder folder;
  write_file_atomic(folder.path / "f", std::string(100000, 'a') + "b");
  MappedFile file(folder.path / "f");
  file.release(file.bytes());
  file.release(file.bytes().subspan(99999, 2));
  EXPECT_EQ(static_cast<char>(file.bytes()[100000]), 'b');
  EXPECT_EQ(static_cast<char>(file.bytes()[5000]), 'a');
}

}  // namespace
}  // namespace seqto
