// Room: runner/worker. A Runner whose sessions live in worker processes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "seqto/runner.h"

namespace seqto::internal {

// `command` starts a worker (serve_worker) for `device`; "--blobs FOLDER" is appended once or more. A worker that ended
// is replaced at the next load; its sessions throw. Throws Error{kUnavailable} when the first worker does not start.
// Sessions may be used from several threads at a time, one thread each; those of one worker run in turn.
std::unique_ptr<Runner> make_worker_runner(std::vector<std::string> command, const std::string& device,
                                           const RunnerOptions& options, const Env& env);
// The same where `command` reaches a worker with --stream on another machine: blobs travel in the stream, and so do
// models in files. Nothing is appended. What may be the link's fault is Error{kUnavailable}.
std::unique_ptr<Runner> make_streamed_worker_runner(std::vector<std::string> command, const std::string& device,
                                                    const RunnerOptions& options, const Env& env);

// The command of a worker of this program: options.worker, else $SEQTO_WORKER, else seqto on PATH.
std::vector<std::string> worker_command(const std::string& device, const RunnerOptions& options);

}  // namespace seqto::internal
