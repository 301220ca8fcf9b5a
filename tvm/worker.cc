#include "worker.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "seqto/runner.h"
#include "tvm_runner.h"

namespace seqto::on_tvm {

void work(const WorkerOptions& options) {
  // What libraries print goes to stderr: stdout is for replies.
  int out = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  ::signal(SIGPIPE, SIG_IGN);  // TVM writes to a link that broke when it lets go of it
  TvmRunner runner(options.kind, options.remote, options.threads);
  ServeOptions serve;
  serve.device = options.device;
  serve.blobs.assign(options.blobs.begin(), options.blobs.end());
  serve_worker(runner, STDIN_FILENO, out, serve);
}

}  // namespace seqto::on_tvm
