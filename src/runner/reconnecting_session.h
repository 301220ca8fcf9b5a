// Room: runner. A session behind a link that may break: runs are repeated on a new connection.
#pragma once

#include <functional>

#include "runner/worker/repeated_session.h"
#include "seqto/env.h"

namespace seqto::internal {

// `open` makes a session. It, and the session's runs, throw Error{kUnavailable} when the link is broken or cannot be
// made; that is tried again, with growing pauses. Other errors are passed on.
class ReconnectingSession : public RepeatedSession {
 public:
  // Opens the first session. Throws DeviceGone when that fails for `first_patience_seconds`; later ones have
  // `patience_seconds` each.
  ReconnectingSession(Open open, double first_patience_seconds, double patience_seconds, const Env& env);

 private:
  void repeat(const std::function<void()>& work) override;
  void reopen(double patience_seconds);

  double patience_seconds_;
  Env env_;
};

}  // namespace seqto::internal
