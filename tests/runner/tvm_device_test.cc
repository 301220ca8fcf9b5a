#include "runner/tvm_device.h"

#include <gtest/gtest.h>

#include "seqto/error.h"

namespace seqto::internal {
namespace {

TEST(TvmTarget, OptionsOfTheProcessorGoToTheHost) {
  EXPECT_EQ(parse_tvm_target("llvm").json, R"({"kind":"llvm"})");
  TvmTarget arm = parse_tvm_target("llvm -mtriple=aarch64-linux-gnu -mattr=+neon,+dotprod");
  EXPECT_EQ(arm.json, R"({"kind":"llvm","mattr":["+neon","+dotprod"],"mtriple":"aarch64-linux-gnu"})");
  EXPECT_EQ(arm.triple, "aarch64-linux-gnu");
  TvmTarget mali = parse_tvm_target("opencl -device=mali -max_num_threads=256 -mtriple=aarch64-linux-android");
  EXPECT_EQ(mali.kind, "opencl");
  EXPECT_EQ(mali.triple, "aarch64-linux-android");
  EXPECT_EQ(mali.json, R"({"device":"mali","host":{"kind":"llvm","mtriple":"aarch64-linux-android"},"kind":"opencl",)"
                       R"("max_num_threads":256})");
  EXPECT_EQ(parse_tvm_target(R"({"kind":"cuda","arch":"sm_90"})").json, R"({"arch":"sm_90","kind":"cuda"})");
}

TEST(TvmDevice, ServersTrackersAndTargetsWithColons) {
  TvmDevice here = parse_tvm_device("tvm:cuda -arch=sm_86");
  EXPECT_FALSE(here.remote());
  EXPECT_EQ(here.target.kind, "cuda");
  TvmDevice board = parse_tvm_device("tvm+rpc:localhost:9090:board:llvm");
  EXPECT_EQ(board.server, "localhost:9090");
  EXPECT_EQ(board.key, "board");
  EXPECT_EQ(parse_tvm_device("tvm+rpc:[::1]:9090:k:llvm").server, "[::1]:9090");
  TvmDevice farm = parse_tvm_device(R"(tvm+tracker:10.0.0.1:9190:phone:{"kind":"opencl","host":{"kind":"llvm"}})");
  EXPECT_EQ(farm.tracker, "10.0.0.1:9190");
  EXPECT_EQ(farm.target.kind, "opencl");
  EXPECT_TRUE(farm.remote());
}

TEST(TvmDevice, WhatIsNoDeviceIsAUsageError) {
  for (const char* text :
       {"tvm:", "tvm:-device=mali", "tvm:llvm mtriple", "tvm:llvm -x", "tvm:{", "tvm:{}", "tvm+rpc:h", "tvm+rpc:h:1",
        "tvm+rpc:h:1:k", "tvm+rpc:h:1:k:", "tvm+rpc:[::1:1:k:llvm", "tvm+usb:llvm"})
    try {
      parse_tvm_device(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kUsage) << text;
    }
}

}  // namespace
}  // namespace seqto::internal
