// Names of machines behind ssh and adb, and the command that reaches them.
#include "runner/link.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "seqto/error.h"

namespace seqto::internal {
namespace {

bool contains(const std::vector<std::string>& words, const std::vector<std::string>& part) {
  return std::ranges::search(words, part).begin() != words.end();
}

TEST(Link, SshTakesUserPortAndTheDeviceThere) {
  Link link = parse_link("ssh:pi@board:2222/cuda");
  EXPECT_EQ(link.name, "ssh:pi@board:2222");
  EXPECT_EQ(link.device, "cuda");
  EXPECT_EQ(link.command.front(), "ssh");
  EXPECT_TRUE(contains(link.command, {"-o", "BatchMode=yes"}));
  EXPECT_TRUE(contains(link.command, {"-p", "2222", "--", "pi@board"}));
  link = parse_link("ssh:board");
  EXPECT_EQ(link.device, "cpu");
  EXPECT_EQ(link.command.back(), "board");
  EXPECT_EQ(std::ranges::count(link.command, "-p"), 0);
}

TEST(Link, AnAddressOfIpv6IsInBrackets) {
  EXPECT_TRUE(contains(parse_link("ssh:pi@[fe80::1]:22").command, {"-p", "22", "--", "pi@fe80::1"}));
  EXPECT_EQ(parse_link("ssh:[::1]").command.back(), "::1");
}

TEST(Link, ASerialMayHoldColons) {
  Link link = parse_link("adb:192.168.1.5:5555/xnnpack");
  EXPECT_EQ(link.device, "xnnpack");
  EXPECT_TRUE(contains(link.command, {"adb", "-s", "192.168.1.5:5555", "shell", "-T"}));
}

TEST(Link, TheCpuThereIsACpuToo) {
  for (const char* device : {"cpu", "ssh:a", "ssh:a:22/cpu", "adb:a"}) EXPECT_TRUE(computes_on_cpu(device)) << device;
  for (const char* device : {"cuda", "ssh:a/cuda", "tvm:llvm"}) EXPECT_FALSE(computes_on_cpu(device)) << device;
}

TEST(Link, WhatIsNoNameIsRefused) {
  // A host that begins with '-' would be an option of ssh.
  for (const char* name : {"ssh:", "ssh:-oProxyCommand=x", "ssh:a@", "ssh:a:b", "ssh:a:", "ssh:[::1", "ssh:a/",
                           "ssh:a/toaster", "ssh:a/tvm:llvm", "adb:", "adb:/cpu", "adb:-s"}) {
    try {
      parse_link(name);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kUsage) << name;
    }
  }
}

TEST(Link, AScriptReachesTheShellThereAsItIs) {
  Link here{.name = "here", .command = {"sh", "-c"}};
  EXPECT_EQ(run_there(here, "printf '%s;' \"it's\" '\\' $((1 + 1))", "", {}), "it's;\\;2;");
  EXPECT_EQ(quoted("a'b c"), "'a'\\''b c'");
}

}  // namespace
}  // namespace seqto::internal
