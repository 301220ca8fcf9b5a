// seqto device serve: makes this machine a device of others, by TVM's RPC. seqto-tvm does it.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "commands.h"
#include "seqto/error.h"
#include "seqto/runner.h"

namespace seqto::cli {
namespace {

[[noreturn]] void become_server(const std::vector<std::string>& flags) {
  std::vector<std::string> words{tvm_executable(), "serve"};
  const auto asks = [](const std::string& flag) { return flag == "-h" || flag == "--help"; };
  if (std::ranges::any_of(flags, asks)) words = {tvm_executable(), "--help"};
  else words.insert(words.end(), flags.begin(), flags.end());
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  throw Error(
      Code::kUnavailable,
      fmt::format("[device] {}: {}; run tools/setup.sh tvm and build again, or set SEQTO_TVM_WORKER to the path "
                  "of seqto-tvm",
                  words[0], std::strerror(errno)));
}

}  // namespace

void add_device(Command app, Context&) {
  const Command word = app.add_subcommand("device", "Make this machine a device of others");
  word.require_subcommand();
  const Command serve =
      word.add_subcommand("serve", "A TVM RPC server; flags are those of seqto-tvm serve (seqto-tvm --help)");
  // All that follows is for the other program.
  word.refuse_outer_flags();
  serve.refuse_outer_flags();
  serve.pass_everything_on();
  serve.callback([serve] { become_server(serve.remaining()); });
}

}  // namespace seqto::cli
