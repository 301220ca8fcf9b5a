// Room: runner. A worker: a Runner that is driven by JSON lines, docs/worker_protocol.md.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "seqto/error.h"
#include "seqto/runner.h"

namespace seqto {

struct ServeOptions {
  std::string device = "cpu";                // as `hello` tells it
  std::vector<std::filesystem::path> blobs;  // folders of the blobs; outputs go to the first that has room
};

// Answers requests read from descriptor `in` on `out` until "shutdown" or the end of input. What computes is done one
// after the other on a thread of its own; "hello" and "cancel" are answered at once. Where nobody reads the answers any
// more, the process is ended: a run that hangs does not outlive the one who asked for it.
void serve_worker(Runner& runner, int in, int out, const ServeOptions& options);

// For a worker that has no runner: answers the first request with the reason.
void serve_refusal(const Error& reason, int in, int out);

// The executable `seqto-tvm`, whose word `serve` makes a machine a device of others: options.tvm_worker, else
// $SEQTO_TVM_WORKER, else the one beside this process's own executable, else `seqto-tvm`, to be found on PATH.
std::string tvm_executable(const RunnerOptions& options = {});

}  // namespace seqto
