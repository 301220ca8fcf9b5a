// Room: base. What a verb needs from the world outside: log, progress, clock, cancel. No globals.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace seqto {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// One step of long work; total 0 means unknown.
struct Progress {
  std::string_view verb;  // "calibrate", "evaluate" ...
  int64_t done = 0;
  int64_t total = 0;
  std::string_view note;  // the best so far, the present candidate ...
  // Of work in several steps: which of them this is, from 1; 0: it is all of it.
  int step = 0, steps = 0;
  double seconds_left = -1;  // of all steps; below 0: not known
};

// Passed by const reference through every verb; every member may be called from any thread.
// The defaults are silent, use the steady clock and never cancel.
struct Env {
  std::function<void(LogLevel, std::string_view)> log = [](LogLevel, std::string_view) {};
  std::function<void(const Progress&)> progress = [](const Progress&) {};
  std::function<int64_t()> now_ns;                         // steady clock; empty means std::chrono::steady_clock
  std::function<bool()> cancelled = [] { return false; };  // true: stop at the next safe point

  int64_t clock_ns() const;
  // Throws Error{kInterrupted} when cancelled() is true.
  void stop_if_cancelled(std::string_view verb) const;
};
// One with the defaults.
const Env& plain_env();

}  // namespace seqto
