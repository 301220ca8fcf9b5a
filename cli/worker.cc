// seqto worker: what `tune` starts to run candidates in; docs/reference/worker_protocol.md.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>

#include "flags.h"
#include "seqto/runner.h"

namespace seqto::cli {
namespace {

// The stdout of old, kept for replies: what libraries print goes to stderr from now on.
int keep_stdout() {
  int kept = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  return kept;
}

}  // namespace

void add_worker(Command app, Context& context) {
  struct Flags {
    DeviceFlags device;
    ServeOptions serve;
  };
  auto f = std::make_shared<Flags>();
  const Command word =
      app.add_subcommand("worker", "Run models for another process: requests on stdin, replies on stdout");
  word.hide();
  add_device_flags(word, f->device);
  word.add_option("--blobs", f->serve.blobs, "Folder that holds the blobs; may be given several times")
      .required()
      .check_folder();
  word.add_flag("--stream", f->serve.stream,
                "Blobs travel with requests and replies; the folder keeps those that came");
  word.callback([=, &context] {
    // Who drives a worker ends it; there is nothing to save.
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
    int out = keep_stdout();
    std::unique_ptr<Runner> runner;
    try {
      runner = make_runner(f->device.device, f->device.options, context.env);
    } catch (const Error& error) {
      serve_refusal(error, STDIN_FILENO, out);
      throw;
    }
    f->serve.device = f->device.device;
    serve_worker(*runner, STDIN_FILENO, out, f->serve);
  });
}

}  // namespace seqto::cli
