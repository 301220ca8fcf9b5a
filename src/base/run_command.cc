#include "base/run_command.h"

#include <fmt/format.h>
#include <poll.h>

#include <array>
#include <cctype>
#include <chrono>

#include "base/subprocess.h"
#include "seqto/error.h"

namespace seqto {

Finished run_command(const std::vector<std::string>& command, double seconds, const Env& env, const char* verb) {
  using Clock = std::chrono::steady_clock;
  constexpr int kPollMs = 50, kPollClosedMs = 5;
  Subprocess process(command);
  Finished result;
  auto start = Clock::now();
  // It may close its pipes and go on, and what it started may hold them when it has ended.
  for (bool more_output = true, more_errors = true, running = true; running && !result.late;) {
    if (env.cancelled()) {
      process.kill();
      throw Error(Code::kInterrupted, fmt::format("[{}] interrupted", verb));
    }
    result.late = seconds > 0 && Clock::now() - start > std::chrono::duration<double>(seconds);
    if (result.late) process.kill();
    std::array<pollfd, 2> states{
        {{more_output ? process.output() : -1, POLLIN, 0}, {more_errors ? process.errors() : -1, POLLIN, 0}}};
    ::poll(states.data(), states.size(), more_output || more_errors ? kPollMs : kPollClosedMs);
    running = process.running();  // before what it wrote is read: nothing comes behind
    more_output = more_output && read_available(process.output(), result.output);
    more_errors = more_errors && read_available(process.errors(), result.errors);
  }
  result.how = process.wait();
  result.good = result.how == "ended with exit code 0";
  return result;
}

std::string last_line(std::string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  const size_t line = text.rfind('\n');
  return line == std::string::npos ? text : text.substr(line + 1);
}

}  // namespace seqto
