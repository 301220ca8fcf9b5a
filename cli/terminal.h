// The terminal: its width, whether it takes colours, and the line that shows how far the work is.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "seqto/env.h"
#include "seqto/report.h"

namespace seqto::cli {

// $COLUMNS, else what the terminal behind the descriptor says, else 80.
int columns_of(int descriptor);

// Only on a terminal that is not dumb, and not where NO_COLOR is set (no-color.org).
bool takes_colours(int descriptor);

// What stdout takes: a terminal's width and colours; where there is none nothing is cut.
TextStyle stdout_style();

// On a terminal one changing line, elsewhere a line every few seconds: the step, how much of it is done, when all will
// end, and what the verb has to say, as far as the columns go. Threads may call it together.
class ProgressLine {
 public:
  explicit ProgressLine(bool terminal) : terminal_(terminal) {}

  void show(const Progress& progress);
  // Takes the line away, so that something else can be written in its place.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  struct Mark {
    Clock::time_point time;
    int64_t done;
  };
  std::vector<std::string> parts(const Progress& progress) const;

  bool terminal_, shown_ = false;
  std::mutex mutex_;
  std::string verb_;
  Clock::time_point last_;
  std::deque<Mark> marks_;  // of the last while, for the rate
};

// To stderr, at once; lost where nobody reads it any more.
void say(std::string_view text);

// A log on stderr, of levels by verbosity 0, 1, 2; `before` is called before each line.
std::function<void(LogLevel, std::string_view)> make_log(int verbosity, std::function<void()> before);

// For words that another process drives. The stdout of old, kept for replies: what libraries print goes to stderr from
// now on.
int keep_stdout();
// Who drives them ends them; there is nothing to save.
void end_on_signals();

}  // namespace seqto::cli
