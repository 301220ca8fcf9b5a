// Room: runner/worker. A session whose worker may be killed from outside.
#pragma once

#include <functional>
#include <string>

#include "runner/worker/repeated_session.h"
#include "seqto/env.h"
#include "seqto/error.h"

namespace seqto::internal {

// The worker was ended by a signal that no crash raises: by a person, or by a system that is short of memory.
// Nothing is known of the model.
class WorkerKilled : public Error {
 public:
  explicit WorkerKilled(const std::string& message) : Error(Code::kUnavailable, message) {}
};

// Calls f() again where its worker was killed, a few times. The last time WorkerKilled is thrown, with what to do.
void for_each_worker(const Env& env, const std::function<void()>& f);

// `open` makes a session in a worker that lives; its runs are repeated in another one where the worker was killed.
class LastingSession : public RepeatedSession {
 public:
  LastingSession(Open open, const Env& env);

 private:
  void repeat(const std::function<void()>& work) override;

  Env env_;
};

}  // namespace seqto::internal
