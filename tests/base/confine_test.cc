// What a confined process may still do is tried in a child: it cannot be undone.
#include "seqto/confine.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/files.h"

namespace seqto {
namespace {

namespace fs = std::filesystem;

// The exit code of a child that is confined to `writable`: the number of the first of `tries` that fails, from 1; 0:
// none.
int first_that_fails(const std::vector<fs::path>& writable, const std::vector<std::function<bool()>>& tries) {
  const pid_t child = ::fork();
  if (child == 0) {
    confine_process(writable);
    for (size_t i = 0; i < tries.size(); ++i)
      if (!tries[i]()) ::_exit(static_cast<int>(i) + 1);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// What the kernel of this machine allows.
Confinement possible() {
  int pipe[2];
  EXPECT_EQ(::pipe(pipe), 0);
  if (::fork() == 0) {
    const Confinement got = confine_process({});
    ::_exit(::write(pipe[1], &got, sizeof got) == sizeof got ? 0 : 1);
  }
  Confinement got;
  EXPECT_EQ(::read(pipe[0], &got, sizeof got), static_cast<ssize_t>(sizeof got));
  ::wait(nullptr);
  ::close(pipe[0]);
  ::close(pipe[1]);
  return got;
}

bool writes(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_CREAT | O_WRONLY, 0600);
  const bool done = fd >= 0 && ::write(fd, "x", 1) == 1;
  if (fd >= 0) ::close(fd);
  return done;
}

class Confine : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(inside);
    fs::create_directories(outside);
    std::ofstream(outside / "there") << "text";
  }
  TemporaryFolder folder;
  fs::path inside = folder.path / "inside", outside = folder.path / "outside";
};

TEST_F(Confine, WritesInItsFoldersAlone) {
  if (!possible().writing) GTEST_SKIP() << "the kernel has no Landlock";
  EXPECT_EQ(first_that_fails(
                {inside}, {
                              [&] { return writes(inside / "new"); },
                              [&] { return fs::create_directory(inside / "folder"); },
                              [&] { return ::rename((inside / "new").c_str(), (inside / "folder/new").c_str()) == 0; },
                              [&] { return ::truncate((inside / "folder/new").c_str(), 0) == 0; },
                              [&] { return fs::remove_all(inside / "folder") == 2; },
                              [&] { return writes("/dev/null"); },
                              [&] { return read_file(outside / "there") == "text"; },
                              [&] { return temporary_parent() == inside; },
                              [&] { return !writes(outside / "new"); },
                              [&] { return !writes(outside / "there"); },
                              [&] { return ::unlink((outside / "there").c_str()) != 0; },
                              [&] { return ::mkdir((outside / "folder").c_str(), 0700) != 0; },
                              [&] { return ::symlink("/", (inside / "link").c_str()) != 0; },
                              [&] { return ::mkfifo((inside / "fifo").c_str(), 0600) != 0; },
                              [&] {
                                bool refused = false;
                                std::thread([&] { refused = !writes(outside / "new"); }).join();
                                return refused;
                              },
                          }),
            0);
  EXPECT_EQ(read_file(outside / "there"), "text");
}

TEST_F(Confine, OpensNoSockets) {
  if (!possible().network) GTEST_SKIP() << "the kernel has no seccomp filters";
  std::vector<std::function<bool()>> tries;
  for (const int domain : {AF_INET, AF_INET6, AF_UNIX, AF_NETLINK})
    tries.emplace_back([=] { return ::socket(domain, SOCK_DGRAM, 0) < 0 && errno == EPERM; });
  EXPECT_EQ(first_that_fails({inside}, tries), 0);
}

TEST_F(Confine, WritesNoFileBeyondTheMemory) {
  const auto memory = static_cast<rlim_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
  EXPECT_EQ(first_that_fails({inside},
                             {
                                 [&] {
                                   const int fd = ::open((inside / "large").c_str(), O_CREAT | O_WRONLY, 0600);
                                   return fd >= 0 && ::ftruncate(fd, static_cast<off_t>(memory) + 1) != 0 &&
                                          errno == EFBIG;
                                 },
                             }),
            0);
}

TEST_F(Confine, TellsWhatIsInForce) {
  EXPECT_FALSE(confinement().writing);
  const Confinement can = possible();
  EXPECT_EQ(first_that_fails({inside}, {
                                           [&] { return confinement().writing == can.writing; },
                                           [&] { return confinement().network == can.network; },
                                       }),
            0);
  // A folder that is not there is none to write to: nothing is held back that the caller did not ask for.
  EXPECT_EQ(first_that_fails({outside / "none"}, {[] { return !confinement().writing; }}), 0);
}

}  // namespace
}  // namespace seqto
