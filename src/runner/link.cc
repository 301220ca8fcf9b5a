#include "runner/link.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "runner/providers.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

[[noreturn]] void usage(const std::string& found) {
  throw Error(Code::kUsage,
              fmt::format("[link] '{}' found; ssh:[USER@]HOST[:PORT][/DEVICE] or adb:SERIAL[/DEVICE] expected, where "
                          "DEVICE is cpu or one of ONNX Runtime's providers",
                          found));
}

// Splits ":PORT" off; a number of IPv6 is in brackets, which ssh does not want.
std::string take_port(std::string& host, const std::string& device) {
  const size_t bracket = host.find('['), closed = host.find(']');
  if ((bracket == std::string::npos) != (closed == std::string::npos)) usage(device);
  const size_t colon = host.find(':', closed == std::string::npos ? 0 : closed);
  const std::string port = colon == std::string::npos ? "" : host.substr(colon + 1);
  if (colon != std::string::npos && (port.empty() || !std::ranges::all_of(port, ::isdigit))) usage(device);
  host = host.substr(0, colon);
  std::erase_if(host, [](char c) { return c == '[' || c == ']'; });
  return port;
}

// A link that is dead is noticed within 15 seconds, not after TCP's hours.
Link ssh_link(std::string host, const std::string& device) {
  const std::string port = take_port(host, device);
  if (host.empty() || host.front() == '-' || host.back() == '@') usage(device);
  Link link{.command = {"ssh", "-T"}, .cache = "${XDG_CACHE_HOME:-$HOME/.cache}/seqto"};
  for (const char* option : {"BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=3"})
    link.command.insert(link.command.end(), {"-o", option});
  if (!port.empty()) link.command.insert(link.command.end(), {"-p", port});
  link.command.insert(link.command.end(), {"--", host});
  link.advice = fmt::format(
      "`ssh {}{} true` has to work without a question: a key or an agent that the machine knows, "
      "and its host key accepted once by hand",
      port.empty() ? "" : fmt::format("-p {} ", port), host);
  return link;
}

Link adb_link(const std::string& serial, const std::string& device) {
  if (serial.empty() || serial.front() == '-') usage(device);
  return {.command = {"adb", "-s", serial, "shell", "-T"},
          .cache = "${TMPDIR:-/data/local/tmp}/seqto",
          .advice = fmt::format("`adb devices` has to list {} as 'device'", serial)};
}

}  // namespace

bool is_link(const std::string& device) { return device.starts_with("ssh:") || device.starts_with("adb:"); }

Link parse_link(const std::string& device) {
  if (!is_link(device)) usage(device);
  const size_t slash = device.find('/');
  const std::string place = device.substr(4, slash == std::string::npos ? slash : slash - 4);
  Link link = device.starts_with("ssh:") ? ssh_link(place, device) : adb_link(place, device);
  link.name = device.substr(0, slash);
  link.device = slash == std::string::npos ? "cpu" : device.substr(slash + 1);
  if (link.device != "cpu" && !find_provider(link.device)) usage(device);
  return link;
}

bool computes_on_cpu(const std::string& device) {
  return device == "cpu" || (is_link(device) && parse_link(device).device == "cpu");
}

std::string quoted(const std::string& word) {
  std::string result = "'";
  for (char c : word)
    if (c == '\'') result += "'\\''";
    else result += c;
  return result + "'";
}

std::vector<std::string> script_there(const Link& link, const std::string& script) {
  std::vector<std::string> words = link.command;
  words.push_back("exec sh -c " + quoted(script));
  return words;
}

std::string run_there(const Link& link, const std::string& script, const std::string& file, const Env& env) {
  std::vector<std::string> words{"sh", "-c", "exec \"$@\" <\"$0\"", file.empty() ? "/dev/null" : file};
  for (std::string& word : script_there(link, script)) words.push_back(std::move(word));
  Finished done = run_command(words, 0, env, "link");
  if (done.good) return std::move(done.output);
  // What ssh itself says, 255; what adb says looks like the script's.
  const bool reached = link.command.front() == "ssh" && done.how != "ended with exit code 255";
  throw Error(Code::kUnavailable, fmt::format("[link] {} {}: {}{}", link.name, done.how, last_line(done.errors),
                                              reached ? "" : "; " + link.advice));
}

}  // namespace seqto::internal
