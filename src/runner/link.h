// Room: runner. Machines that ssh or adb reach, by name: "ssh:pi@board", "ssh:board:2222/cuda", "adb:SERIAL" ...
#pragma once

#include <string>
#include <vector>

#include "base/run_command.h"

namespace seqto::internal {

struct Link {
  std::string name;                  // "ssh:pi@board", for messages
  std::string device;                // there: "cpu" or one of ONNX Runtime's providers
  std::vector<std::string> command;  // runs a script there when that is appended: the user's ssh or adb
  std::string cache;                 // folder there, as its shell expands it
  std::string advice;                // what has to work before we can
};
bool is_link(const std::string& device);
// "ssh:[USER@]HOST[:PORT][/DEVICE]" or "adb:SERIAL[/DEVICE]". Throws Error{kUsage}.
Link parse_link(const std::string& device);

// The CPU of this machine or of another one.
bool computes_on_cpu(const std::string& device);

// A word as a POSIX shell takes it.
std::string quoted(const std::string& word);
// The command that runs a script there by sh, whatever the login shell is.
std::vector<std::string> script_there(const Link& link, const std::string& script);
// Runs it to its end; its stdin is `file`, or nothing. Throws Error{kUnavailable} where it fails: the script's last
// word on stderr, and what to do.
std::string run_there(const Link& link, const std::string& script, const std::string& file, const Env& env);

}  // namespace seqto::internal
