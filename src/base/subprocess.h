// Room: base. A child process with pipes to its stdin, stdout and stderr.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.h"

namespace seqto {

class Subprocess {
 public:
  // Starts command[0], looked up in PATH where it has no slash, in a process group of its own: an interrupt typed at
  // the terminal reaches this process alone. The child has no other descriptors of ours.
  // Throws Error{kUnavailable} when it cannot be started.
  explicit Subprocess(const std::vector<std::string>& command);
  // Closes the child's stdin, gives it a second to end, then kills it.
  ~Subprocess();
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;

  // Our ends of the pipes; none of them blocks.
  int input() const { return input_.get(); }
  int output() const { return output_.get(); }
  int errors() const { return errors_.get(); }

  pid_t pid() const { return pid_; }
  bool running();
  bool end_within(double seconds);  // closes its stdin; whether it ended in that time
  void terminate();                 // asks all of its process group to end: SIGTERM
  void kill();                      // at once, with all that it started in its process group
  std::string wait();               // until it has ended; how, as words: "killed by signal 6 (Aborted)"
  bool was_killed() const;          // it has ended, by a signal that others send: SIGKILL, SIGTERM, SIGINT, SIGHUP
  int64_t resident_bytes() const;   // 0 where the system does not tell

 private:
  pid_t pid_ = -1;
  bool ended_ = false;
  int status_ = 0;
  Descriptor input_, output_, errors_;
};

// Whether there is such a file, looked up in PATH where it has no slash.
bool is_program(const std::string& program);

// Writes as much of `text` as the pipe takes now; how much that was. Nothing when nobody reads any more; that raises no
// signal.
std::optional<size_t> write_available(int fd, std::string_view text);
// Appends what can be read now. False at the end.
bool read_available(int fd, std::string& text);

}  // namespace seqto
