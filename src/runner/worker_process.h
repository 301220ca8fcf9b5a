// Room: runner. One worker process: started, asked, watched, stopped.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>
#include "base/json.h"

#include "base/subprocess.h"
#include "seqto/runner.h"

namespace seqto::internal {

// What one exchange is: how it is called in messages and when it is given up.
struct Exchange {
  std::string doing;           // "loaded the model": "... while it loaded the model"
  double timeout_seconds = 0;  // 0: none
  std::atomic<bool> cancelled = false;
};

class WorkerProcess {
 public:
  // Starts `command` and says hello. Throws Error{kUnavailable} when no worker of this protocol and device answers.
  WorkerProcess(const std::vector<std::string>& command, const std::string& device, const RunnerOptions& options,
                const Env& env);

  // Sends a request and waits for its reply, one exchange after the other; any thread. Throws the worker's error, and
  // Error{kUnavailable} when it ends, hangs, eats memory or talks nonsense: it is stopped then, and every later
  // exchange throws at once. Throws Error{kInterrupted} when the exchange or Env is cancelled.
  nlohmann::json ask(const nlohmann::json& request, Exchange& exchange);
  // Makes ask() look at Exchange::cancelled.
  void wake() noexcept;
  // Has the session dropped before the next exchange; waits for nothing.
  void drop(int64_t session);

  bool alive();
  const nlohmann::json& greeting() const { return greeting_; }
  std::atomic<int> sessions = 0;  // that are loaded

 private:
  struct Waiting;
  nlohmann::json exchange(const nlohmann::json& request, Exchange& exchange);
  void send(const nlohmann::json& request);
  void wait_for_something(int milliseconds);
  void read_errors();
  bool next_line(std::string& line);
  void check_memory(const Exchange& exchange);
  void check_cancelled(Waiting& waiting);
  [[noreturn]] void fail(const std::string& what);    // stops the process
  [[noreturn]] void ended(const Exchange& exchange);  // it closed its output
  std::string last_words() const;

  const RunnerOptions options_;
  const Env env_;
  Subprocess process_;
  Descriptor wake_;
  // Whoever has the turn uses the members below. Not a timed mutex: ThreadSanitizer does not know those.
  class Turn;
  std::mutex turn_mutex_;
  std::condition_variable turn_over_;
  bool taken_ = false;
  std::string outgoing_, incoming_, errors_;
  int64_t last_id_ = 0;
  nlohmann::json greeting_;
  std::mutex state_;  // of the members below
  std::string failure_;
  std::vector<int64_t> dropped_;
};

}  // namespace seqto::internal
