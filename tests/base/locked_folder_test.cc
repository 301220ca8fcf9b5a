#include "base/locked_folder.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "base/files.h"

namespace seqto {
namespace {

namespace fs = std::filesystem;

class LockedFolders : public ::testing::Test {
 protected:
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(parent_.path))
      if (entry.path().filename() != "lock") found.push_back(entry.path().filename().string());
    return found;
  }
  // A process that makes one and waits.
  pid_t child_with_a_folder() const {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    const pid_t pid = ::fork();
    if (pid == 0) {
      const LockedFolder folder(parent_.path, "mine-");
      std::ofstream(folder.path() / "file") << "x";
      (void)!::write(ready[1], "x", 1);
      for (;;) ::pause();
    }
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
    return pid;
  }

  TemporaryFolder parent_;
};

TEST_F(LockedFolders, GoWithTheirObject) {
  fs::path path;
  {
    const LockedFolder folder(parent_.path, "mine-");
    path = folder.path();
    EXPECT_TRUE(path.filename().string().starts_with("mine-" + std::to_string(::getpid()) + "-"));
    std::ofstream(path / "file") << "x";
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(LockedFolders, StayWhileTheirProcessLivesAndAreStaleWhenItWasKilled) {
  const pid_t pid = child_with_a_folder();
  const LockedFolder own(parent_.path, "mine-");
  fs::create_directory(parent_.path / "other-1");
  remove_stale_folders(parent_.path, "mine-");
  EXPECT_EQ(names().size(), 3u);
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  EXPECT_EQ(names().size(), 3u);
  remove_stale_folders(parent_.path, "mine-");
  EXPECT_EQ(names().size(), 2u);
  EXPECT_TRUE(fs::exists(own.path()));
  EXPECT_TRUE(fs::exists(parent_.path / "other-1"));
}

TEST_F(LockedFolders, AFolderWithoutALockIsSomebodyElses) {
  fs::create_directory(parent_.path / "mine-own");
  remove_stale_folders(parent_.path, "mine-");
  EXPECT_TRUE(fs::exists(parent_.path / "mine-own"));
}

TEST_F(LockedFolders, ALinkIsNoFolder) {
  fs::create_directory(parent_.path / "kept");
  fs::create_directory_symlink(parent_.path / "kept", parent_.path / "mine-link");
  remove_stale_folders(parent_.path, "mine-");
  EXPECT_TRUE(fs::is_symlink(parent_.path / "mine-link"));
  EXPECT_TRUE(fs::exists(parent_.path / "kept"));
}

TEST_F(LockedFolders, HaveNoPathWhereNoneCanBeMade) {
  const LockedFolder folder(parent_.path / "nowhere", "mine-");
  EXPECT_EQ(errno, ENOENT);
  EXPECT_TRUE(folder.path().empty());
  remove_stale_folders(parent_.path / "nowhere", "mine-");
}

}  // namespace
}  // namespace seqto
