// seqto worker: what `tune` starts to run candidates in; docs/reference/worker_protocol.md.
#include "flags.h"
#include "seqto/confine.h"
#include "seqto/runner.h"
#include "terminal.h"

namespace seqto::cli {

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
    end_on_signals();
    // Drivers of other devices write caches and talk to services of their own.
    if (f->device.device == "cpu") confine_process(f->serve.blobs);
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
