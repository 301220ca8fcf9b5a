#include "base/subprocess.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include <chrono>

#include "base/run_command.h"
#include "seqto/error.h"

namespace seqto {
namespace {

std::string everything(int fd) {
  std::string text;
  pollfd state{fd, POLLIN, 0};
  while (read_available(fd, text)) ::poll(&state, 1, -1);
  return text;
}

TEST(Subprocess, TalksThroughItsPipes) {
  Subprocess cat({"cat"});
  EXPECT_EQ(write_available(cat.input(), "one\ntwo\n"), 8u);
  std::string back;
  pollfd state{cat.output(), POLLIN, 0};
  while (back.size() < 8 && ::poll(&state, 1, -1) == 1) ASSERT_TRUE(read_available(cat.output(), back));
  EXPECT_EQ(back, "one\ntwo\n");
  EXPECT_TRUE(cat.running());
  EXPECT_GT(cat.resident_bytes(), 0);
}

TEST(Subprocess, HasSeparateOutputAndErrors) {
  Subprocess shell({"sh", "-c", "echo out; echo err >&2"});
  EXPECT_EQ(everything(shell.output()), "out\n");
  EXPECT_EQ(everything(shell.errors()), "err\n");
}

TEST(Subprocess, SaysHowItEnded) {
  EXPECT_EQ(Subprocess({"sh", "-c", "exit 3"}).wait(), "ended with exit code 3");
  EXPECT_EQ(Subprocess({"sh", "-c", "kill -ABRT $$"}).wait(), "was killed by signal 6 (Aborted)");
  Subprocess sleeper({"sleep", "1000"});
  sleeper.kill();
  EXPECT_EQ(sleeper.wait(), "was killed by signal 9 (Killed)");
  EXPECT_FALSE(sleeper.running());
}

TEST(Subprocess, KillsWhatTheChildStarted) {
  Subprocess shell({"sh", "-c", "sleep 1000 & echo $!; wait"});
  std::string text;
  pollfd state{shell.output(), POLLIN, 0};
  while (text.find('\n') == std::string::npos && ::poll(&state, 1, -1) == 1) read_available(shell.output(), text);
  shell.kill();
  // The grandchild holds the pipe too: its end is the end of both.
  everything(shell.output());
  EXPECT_EQ(shell.wait(), "was killed by signal 9 (Killed)");
}

TEST(Subprocess, WritingToOneThatIsGoneRaisesNoSignal) {
  Subprocess gone({"true"});
  gone.wait();
  EXPECT_FALSE(write_available(gone.input(), "anyone?"));
  sigset_t pending;
  ::sigpending(&pending);
  EXPECT_FALSE(::sigismember(&pending, SIGPIPE));
}

TEST(Subprocess, WhatIsNoProgramIsAnError) {
  try {
    Subprocess nothing({"/nowhere/seqto"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUnavailable);
    EXPECT_NE(std::string(error.what()).find("/nowhere/seqto: No such file"), std::string::npos) << error.what();
  }
}

TEST(RunCommand, EndsWithItsCommand) {
  const auto start = std::chrono::steady_clock::now();
  const Finished left = run_command({"sh", "-c", "sleep 5 & echo 0.5"}, 4, plain_env(), "test");
  EXPECT_TRUE(left.good) << left.how;
  EXPECT_FALSE(left.late) << "what it started holds the pipes";
  EXPECT_EQ(left.output, "0.5\n");
  EXPECT_TRUE(run_command({"sh", "-c", "exec >&- 2>&-; sleep 5"}, 0.2, plain_env(), "test").late)
      << "without pipes it goes on";
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(4));
}

// As `env --ignore-signal=CHLD` leaves it: the system takes children away that nobody asked for.
TEST(RunCommand, EndsWhereTheSystemTakesChildrenAway) {
  const auto before = ::signal(SIGCHLD, SIG_IGN);
  EXPECT_EQ(run_command({"echo", "told"}, 0, plain_env(), "test").output, "told\n");
  ::signal(SIGCHLD, before);
}

TEST(Subprocess, InheritsNoOtherDescriptor) {
  Subprocess other({"cat"});  // its pipes are open here
  Subprocess shell({"sh", "-c", "ls /proc/self/fd | wc -l"});
  EXPECT_EQ(everything(shell.output()), "4\n");  // 0, 1, 2, and that of ls on the folder
}

}  // namespace
}  // namespace seqto
