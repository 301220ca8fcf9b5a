#include "seqto/env.h"

#include <fmt/format.h>

#include <chrono>

#include "seqto/error.h"

namespace seqto {

const Env& plain_env() {
  static const Env kPlain;
  return kPlain;
}

int64_t Env::clock_ns() const {
  if (now_ns) return now_ns();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void Env::stop_if_cancelled(std::string_view verb) const {
  if (cancelled && cancelled())
    throw Error(
        Code::kInterrupted,
        fmt::format("[{}] interrupted; run the same command again; a study or a download goes on where it was", verb));
}

}  // namespace seqto
