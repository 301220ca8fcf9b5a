// Room: runner/worker. One worker process: started, asked, watched, stopped.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/subprocess.h"
#include "runner/worker/outgoing.h"
#include "runner/worker/worker_protocol.h"
#include "seqto/runner.h"

namespace seqto::internal {

struct WorkerLaunch {
  std::vector<std::string> command;
  std::string device;  // as the worker calls it
  // Where the worker is behind a link: the folders here of the blobs that it lacks, and that come back. Null: it shares
  // them. A worker behind a link that crashes, or does not answer, is the model's fault (Error{kInvalidInput}): a link
  // that is dead ends by itself. All else may be the link's.
  const BlobFolders* link = nullptr;
};

// What one exchange is: how it is called in messages and when it is given up.
struct Exchange {
  std::string doing;           // "loaded the model": "... while it loaded the model"
  double timeout_seconds = 0;  // 0: none
  std::atomic<bool> cancelled = false;
};

class WorkerProcess {
 public:
  // Starts `launch.command` and says hello. Throws Error{kUnavailable} when no worker of this protocol and device
  // answers.
  WorkerProcess(const WorkerLaunch& launch, const RunnerOptions& options, const Env& env);

  // Sends a request and waits for its reply, one exchange after the other; any thread. Throws the worker's error, and
  // Error{kUnavailable} when it ends, hangs, eats memory or talks nonsense: it is stopped then, and every later
  // exchange throws at once; WorkerKilled where it was killed from outside. Throws Error{kInterrupted} when the
  // exchange or Env is cancelled.
  nlohmann::json ask(const nlohmann::json& request, Exchange& exchange);
  // Makes ask() look at Exchange::cancelled.
  void wake() noexcept;
  // Has the session dropped before the next exchange; waits for nothing.
  void drop(int64_t session);

  bool alive();
  const nlohmann::json& greeting() const { return greeting_; }
  std::atomic<int> sessions = 0;  // that are loaded or being loaded

 private:
  struct Waiting;
  nlohmann::json exchange(const nlohmann::json& request, Exchange& exchange);
  void send(const nlohmann::json& request);
  void wait_for_something(int milliseconds);
  void read_errors();
  bool next_message(nlohmann::json& message);
  bool take_blob();  // false: not all of it is here yet
  void give_blobs(const nlohmann::json& names);
  void check_memory(const Exchange& exchange);
  void check_cancelled(Waiting& waiting);
  [[noreturn]] void fail(const std::string& what, Code code = Code::kUnavailable);  // stops the process
  [[noreturn]] void ended(const Exchange& exchange);                                // it closed its output
  Code fault() const;  // of a worker that is reached and does not do its work
  [[noreturn]] void crashed(int code, const Exchange& exchange);  // behind the link
  std::string last_words() const;

  const BlobFolders* const link_;
  const RunnerOptions options_;
  const Env env_;
  Subprocess process_;
  Descriptor wake_;
  // Whoever has the turn uses the members below. Not a timed mutex: ThreadSanitizer does not know those.
  class Turn;
  std::mutex turn_mutex_;
  std::condition_variable turn_over_;
  bool taken_ = false;
  Outgoing outgoing_;
  std::string incoming_, errors_;
  size_t searched_ = 0;                 // of incoming_: no line ends in them
  std::optional<BlobHeader> arriving_;  // whose bytes come next
  int64_t last_id_ = 0;
  nlohmann::json greeting_;
  std::mutex state_;  // of the members below
  std::string failure_;
  bool killed_ = false;  // from outside
  std::vector<int64_t> dropped_;
};

}  // namespace seqto::internal
