// seqto: parses the words and flags, calls the library, turns errors into messages and exit codes.
#include <fmt/color.h>
#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <map>

#include "commands.h"
#include "seqto/error.h"

namespace {

using namespace seqto;

std::atomic<bool> interrupted{false};

void on_signal(int) {
  if (interrupted.exchange(true)) ::_exit(130);  // the second one does not wait
}

// One changing line on a terminal, a line every few seconds elsewhere.
class ProgressLine {
 public:
  explicit ProgressLine(bool terminal) : terminal_(terminal) {}

  void show(const Progress& p) {
    auto now = std::chrono::steady_clock::now();
    if (p.verb != verb_) verb_ = std::string(p.verb), start_ = last_ = now;
    bool last_step = p.total > 0 && p.done >= p.total;
    auto pause = terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(5000);
    if (!last_step && now - last_ < pause) return;
    last_ = now;
    double seconds = std::chrono::duration<double>(now - start_).count();
    std::string left;
    if (p.total > p.done && p.done > 0)
      left = fmt::format(", about {:.0f} s left",
                         seconds / static_cast<double>(p.done) * static_cast<double>(p.total - p.done));
    std::string text = fmt::format("{} {}/{}{}{}{}", p.verb, p.done, p.total, left, p.note.empty() ? "" : ", ", p.note);
    if (terminal_) fmt::print(stderr, "\r\033[K{}{}", text, last_step ? "\n" : "");
    else fmt::print(stderr, "{}\n", text);
  }

 private:
  bool terminal_;
  std::string verb_;
  std::chrono::steady_clock::time_point start_, last_;
};

std::function<void(LogLevel, std::string_view)> make_log(int verbosity) {
  auto logger = spdlog::stderr_color_mt("seqto");
  logger->set_pattern("%^%l%$: %v");
  logger->set_level(verbosity == 0 ? spdlog::level::err : verbosity == 1 ? spdlog::level::info : spdlog::level::debug);
  return [logger](LogLevel level, std::string_view text) {
    static const std::map<LogLevel, spdlog::level::level_enum> kLevels{{LogLevel::kDebug, spdlog::level::debug},
                                                                       {LogLevel::kInfo, spdlog::level::info},
                                                                       {LogLevel::kWarning, spdlog::level::warn},
                                                                       {LogLevel::kError, spdlog::level::err}};
    logger->log(kLevels.at(level), "{}", text);
  };
}

int run(int argc, char** argv) {
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
    context.env.log = make_log(context.verbosity);
    context.env.cancelled = [] { return interrupted.load(); };
    if (!quiet) {
      auto line = std::make_shared<ProgressLine>(::isatty(2) == 1);
      context.env.progress = [line](const Progress& p) { line->show(p); };
    }
  });
  cli::add_inspect(app, context);
  cli::add_prepare(app, context);
  cli::add_calibrate(app, context);
  cli::add_quantize(app, context);
  cli::add_analyze(app, context);
  cli::add_tune(app, context);
  cli::add_run(app, context);
  cli::add_validate(app, context);
  cli::add_plan(app, context);
  cli::add_bench(app, context);
  cli::add_check(app, context);
  cli::add_report(app, context);
  cli::add_device(app, context);
  cli::add_hub(app, context);
  cli::add_worker(app, context);
  cli::add_completion(app);
  cli::add_man(app);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {
    int code = app.exit(error);
    bool said = error.get_name() == "RuntimeError";  // a word that has told all itself, and with which code
    return code == 0 || said ? code : static_cast<int>(Code::kUsage);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  try {
    return run(argc, argv);
  } catch (const Error& error) {
    fmt::print(stderr, "seqto: {}\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    fmt::print(stderr, "seqto: internal error: {}; please report it with the command that led here\n", error.what());
    return static_cast<int>(Code::kInternal);
  }
}
