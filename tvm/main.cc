// seqto-tvm: what runs models that TVM compiled. The host starts its worker; a device runs its server.
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <deque>
#include <functional>
#include <map>

#include "rpc_server.h"
#include "worker.h"

namespace {

using namespace seqto;
using namespace seqto::on_tvm;

constexpr const char* kHelp = R"(seqto-tvm: runs models that TVM compiled

  seqto-tvm serve [--host 127.0.0.1] [--port 9090] [--key seqto] [--tracker HOST:PORT] [--tracker-host HOST]
                  [--folder DIR] [--threads N] [--plugin FILE]... [--expose]
      A TVM RPC server. Port 0 takes any that is free. Who connects may run any code here: it listens on the loopback
      address unless --expose says that the network is trusted. --plugin loads a TVM runtime, as
      libtvm_runtime_opencl.so; it may be given several times.

  seqto-tvm worker --blobs DIR [--device NAME] [--kind llvm] [--rpc HOST:PORT | --tracker HOST:PORT] [--key seqto]
                   [--threads N] [--plugin FILE]...
      What seqto starts for --device tvm:... and tvm+rpc:...; it speaks the worker protocol on stdin and stdout.
)";

[[noreturn]] void usage(const std::string& what) {
  throw Error(Code::kUsage, "[seqto-tvm] " + what + "; seqto-tvm --help lists words and flags");
}

int number(const std::string& text, int least, int most) {
  int value = 0;
  const char* end = text.data() + text.size();
  auto [last, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || last != end || value < least || value > most)
    usage("'" + text + "' found; a number from " + std::to_string(least) + " to " + std::to_string(most) + " expected");
  return value;
}

// Flags by name; those that take a value get it, others an empty text.
using Flags = std::map<std::string, std::function<void(const std::string&)>>;

void parse(std::deque<std::string> words, const Flags& flags, const std::string& without_value = "") {
  while (!words.empty()) {
    std::string name = words.front(), value;
    words.pop_front();
    auto flag = flags.find(name);
    if (flag == flags.end()) usage("'" + name + "' found; a flag expected");
    if (name != without_value) {
      if (words.empty()) usage("nothing found after " + name + "; its value expected");
      value = words.front();
      words.pop_front();
    }
    flag->second(value);
  }
}

void serve_word(std::deque<std::string> words) {
  ServeOptions o;
  parse(std::move(words),
        {{"--host", [&](auto& v) { o.address.host = v; }},
         {"--port", [&](auto& v) { o.address.port = number(v, 0, 65535); }},
         {"--key", [&](auto& v) { o.key = v; }},
         {"--tracker", [&](auto& v) { o.tracker = v; }},
         {"--tracker-host", [&](auto& v) { o.tracker_host = v; }},
         {"--folder", [&](auto& v) { o.folder = v; }},
         {"--threads", [&](auto& v) { set_threads(number(v, 1, 1024)); }},
         {"--plugin", [&](auto& v) { load_plugin(v); }},
         {"--expose", [&](auto&) { o.expose = true; }}},
        "--expose");
  if (!o.tracker.empty()) parse_address(o.tracker);
  serve(o);
}

void worker_word(std::deque<std::string> words) {
  WorkerOptions o;
  Remote remote{.server = "", .tracker = "", .key = "seqto"};
  parse(std::move(words),
        {{"--device", [&](auto& v) { o.device = v; }},
         {"--kind", [&](auto& v) { o.kind = v; }},
         {"--rpc", [&](auto& v) { remote.server = v; }},
         {"--tracker", [&](auto& v) { remote.tracker = v; }},
         {"--key", [&](auto& v) { remote.key = v; }},
         {"--connect-timeout", [&](auto& v) { remote.connect_timeout_seconds = number(v, 1, 86400); }},
         {"--threads", [&](auto& v) { o.threads = number(v, 1, 1024); }},
         {"--plugin", [&](auto& v) { load_plugin(v); }},
         {"--blobs", [&](auto& v) { o.blobs.push_back(v); }}});
  if (o.blobs.empty()) usage("no --blobs found; at least one folder expected");
  if (!remote.server.empty() || !remote.tracker.empty()) o.remote = remote;
  if (o.device.empty()) o.device = "tvm:" + o.kind;
  work(o);
}

}  // namespace

int main(int argc, char** argv) {
  std::deque<std::string> words(argv + 1, argv + argc);
  std::string word = words.empty() ? "" : words.front();
  if (!words.empty()) words.pop_front();
  try {
    if (word == "serve") serve_word(std::move(words));
    else if (word == "worker") worker_word(std::move(words));
    else if (word == "--help" || word == "-h") std::fputs(kHelp, stdout);
    else usage("'" + word + "' found; the word serve or worker expected");
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "seqto-tvm: %s\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "seqto-tvm: internal error: %s\n", error.what());
    return static_cast<int>(Code::kInternal);
  }
}
