// Room: base. A command run to its end, or to a limit.
#pragma once

#include <string>
#include <vector>

#include "seqto/env.h"

namespace seqto {

struct Finished {
  std::string output, errors, how;  // how it ended, in words
  bool good = false, late = false;  // exit code 0; killed at the limit
};
// `seconds`: 0: no limit. Throws Error{kUnavailable} where it cannot be started, Error{kInterrupted} on cancel.
Finished run_command(const std::vector<std::string>& command, double seconds, const Env& env, const char* verb);

// The last line that says something; empty: none.
std::string last_line(std::string text);

}  // namespace seqto
