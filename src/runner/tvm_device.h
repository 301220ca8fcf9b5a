// Room: runner. Devices that TVM reaches, by name: "tvm:llvm", "tvm+rpc:HOST:PORT:KEY:opencl -device=mali" ...
#pragma once

#include <string>

namespace seqto::internal {

// What TVM compiles for.
struct TvmTarget {
  std::string kind;    // "llvm", "cuda", "opencl" ...
  std::string json;    // as TVM's Target() takes it, keys in order
  std::string triple;  // of the code for the CPU, "aarch64-linux-gnu"; empty: this machine's
};
// TVM's spelling, `KIND -key=value ...`, or its JSON. For kinds other than llvm, -mtriple, -mcpu and -mattr are those
// of the code on the CPU beside the device. Throws Error{kUsage}.
TvmTarget parse_tvm_target(const std::string& text);

struct TvmDevice {
  TvmTarget target;
  std::string server;   // HOST:PORT of an RPC server; empty: this machine, or
  std::string tracker;  // HOST:PORT of a tracker that knows servers with the key
  std::string key;
  bool remote() const { return !server.empty() || !tracker.empty(); }
};
bool is_tvm_device(const std::string& device);
// "tvm:TARGET", "tvm+rpc:HOST:PORT:KEY:TARGET" or "tvm+tracker:HOST:PORT:KEY:TARGET". Throws Error{kUsage}.
TvmDevice parse_tvm_device(const std::string& device);

}  // namespace seqto::internal
