// seqto-tvm worker: speaks the worker protocol (docs/reference/worker_protocol.md) for models compiled by TVM.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "connection.h"

namespace seqto::on_tvm {

struct WorkerOptions {
  std::string device;  // as the one who drives the worker calls it: "tvm:llvm"
  std::string kind = "llvm";
  std::optional<Remote> remote;
  int threads = 1;
  std::vector<std::string> blobs;
};

// Serves stdin and stdout until the end of input. Throws Error{kUnavailable} in a build for devices, which has no
// worker.
void work(const WorkerOptions& options);

}  // namespace seqto::on_tvm
