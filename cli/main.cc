// seqto: parses the words and flags, calls the library, turns errors into messages and exit codes.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>

#include "commands.h"
#include "seqto/error.h"
#include "terminal.h"

namespace {

using namespace seqto;

std::atomic<bool> interrupted{false};

void on_signal(int) {
  if (interrupted.exchange(true)) ::_exit(130);  // the second one does not wait
  constexpr std::string_view kSaid = "\nstopping when what is under way is done; once more: at once\n";
  if (::isatty(2) && ::write(2, kSaid.data(), kSaid.size()) < 0) return;
}

int run(int argc, char** argv, cli::ProgressLine& line) {
  CLI::App app{"Finds which layers of an ONNX model to quantize, and how.", "seqto"};
  app.set_version_flag("--version", "seqto " SEQTO_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  cli::Context context;
  bool verbose = false, quiet = false;
  app.add_flag("-v,--verbose", verbose, "Say more");
  app.add_flag("-q,--quiet", quiet, "Say only what went wrong");
  app.add_flag("--json", context.json, "The result as JSON on stdout, everything else on stderr");
  app.parse_complete_callback([&] {
    context.verbosity = quiet ? 0 : verbose ? 2 : 1;
    context.env.log = cli::make_log(context.verbosity, [&line] { line.clear(); });
    context.env.cancelled = [] { return interrupted.load(); };
    if (!quiet) context.env.progress = [&line](const Progress& p) { line.show(p); };
  });
  cli::add_inspect(&app, context);
  cli::add_prepare(&app, context);
  cli::add_calibrate(&app, context);
  cli::add_quantize(&app, context);
  cli::add_analyze(&app, context);
  cli::add_tune(&app, context);
  cli::add_run(&app, context);
  cli::add_validate(&app, context);
  cli::add_plan(&app, context);
  cli::add_bench(&app, context);
  cli::add_check(&app, context);
  cli::add_audit(&app, context);
  cli::add_report(&app, context);
  cli::add_device(&app, context);
  cli::add_hub(&app, context);
  cli::add_worker(&app, context);
  cli::add_completion(&app);
  cli::add_man(&app);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {
    int code = app.exit(error);
    bool said = error.get_name() == "RuntimeError";  // a word that has told all itself, and with which code
    return code == 0 || said ? code : static_cast<int>(Code::kUsage);
  }
}

int run_to_end(int argc, char** argv) {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  cli::ProgressLine line(::isatty(2) == 1);
  try {
    return run(argc, argv, line);
  } catch (const Error& error) {
    line.clear();
    fmt::print(stderr, "seqto: {}\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    line.clear();
    fmt::print(stderr, "seqto: internal error: {}; please report it with the command that led here\n", error.what());
    return static_cast<int>(Code::kInternal);
  }
}

// Operator schemas and kernels of the libraries are thousands of small objects, which the system takes back faster than
// their destructors: a tenth of the time of a short run. Sanitizers look for leaks after these.
[[noreturn]] void leave(int code) {
#ifdef SEQTO_SANITIZED
  std::exit(code);
#else
  std::fflush(nullptr);
  std::_Exit(code);
#endif
}

}  // namespace

int main(int argc, char** argv) { leave(run_to_end(argc, argv)); }
