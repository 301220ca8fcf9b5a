// seqto: parses the words and flags, calls the library, turns errors into messages and exit codes.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>

#include "commands.h"
#include "help_text.h"
#include "seqto/error.h"
#include "terminal.h"

namespace seqto::internal {
std::string_view licences_text();  // made by cmake/components.cmake
}

namespace {

using namespace seqto;

std::atomic<bool> interrupted{false}, unread{false};

void on_signal(int) {
  const int before = errno;                      // of what is interrupted
  if (interrupted.exchange(true)) ::_exit(130);  // the second one does not wait
  constexpr std::string_view kSaid = "\nstopping when what is under way is done; once more: at once\n";
  if (::isatty(2)) {
    [[maybe_unused]] const ssize_t said = ::write(2, kSaid.data(), kSaid.size());
  }
  errno = before;
}

// Who read what is printed is gone: writing fails from now on, and the work ends as when it is interrupted.
void on_pipe(int) { unread = true; }

// A file that is read in place got shorter, or its disk is gone. What was done is in the study.
void on_bus_error(int) {
  constexpr std::string_view kSaid =
      "seqto: [read] a model, its weights or its data were cut off while they were read, or their disk failed; files "
      "that stay as they are expected; run again when they are whole\n";
  ::_exit(::write(2, kSaid.data(), kSaid.size()) < 0 ? 1 : static_cast<int>(Code::kInvalidInput));
}

void take_signals() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP})
    if (std::signal(number, on_signal) == SIG_IGN && number == SIGHUP) std::signal(number, SIG_IGN);  // by nohup
  std::signal(SIGPIPE, on_pipe);
  std::signal(SIGCHLD, SIG_DFL);  // ignored, as a parent may leave it, nobody learns how a child ended
  std::signal(SIGBUS, on_bus_error);
  std::signal(SIGXFSZ, SIG_IGN);  // writing fails then, with its reason
}

// The last of the words that were given.
const CLI::App* last_word(const CLI::App* app) {
  const auto below = app->get_subcommands();
  return below.empty() ? app : last_word(below.front());
}

// The names of its words, or the flags that it takes: those of the words above it too.
std::vector<std::string> words_below(const CLI::App& word) {
  std::vector<std::string> names;
  for (const CLI::App* below : word.get_subcommands([](const CLI::App*) { return true; }))
    if (!below->get_group().empty()) names.push_back(below->get_name());
  return names;
}
std::vector<std::string> flags_of(const CLI::App* word) {
  std::vector<std::string> names;
  for (; word; word = word->get_parent())
    for (const CLI::Option* option : word->get_options())
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

// " plan convert".
std::string path_of(const CLI::App& word) {
  return word.get_parent() ? path_of(*word.get_parent()) + " " + word.get_name() : "";
}

// A word or flag that there is not, or "".
std::string what_is_unknown(const CLI::App& app) {
  const CLI::App& word = *last_word(&app);
  const std::vector<std::string> left = app.remaining(true), words = words_below(word);
  const auto is_flag = [](const std::string& text) { return text.size() > 1 && text.starts_with('-'); };
  if (!words.empty() && !left.empty() && !is_flag(left.front()))
    return fmt::format("the word '{}' found; one of {} expected{}", left.front(), fmt::join(words, ", "),
                       did_you_mean(left.front(), words));
  const auto flag = std::ranges::find_if(left, is_flag);
  if (flag == left.end()) return "";
  const std::string name = flag->substr(0, flag->find('='));
  const std::vector<std::string> known = flags_of(&word);
  if (std::ranges::count(known, name) > 0)
    return fmt::format("the flag {} found in front of its word; `seqto{} {}` expected", name, path_of(word), name);
  return fmt::format("the flag {} found, which `seqto{}` does not have{}", name, path_of(word),
                     did_you_mean(name, known));
}

class HelpTexts : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* word, std::string, CLI::AppFormatMode mode) const override {
    std::vector<std::string> path;
    const CLI::App* root = word;
    for (; root->get_parent(); root = root->get_parent()) path.insert(path.begin(), root->get_name());
    // The handle can change a parser; describe() does not.
    return cli::help_text(cli::describe(const_cast<CLI::App*>(root), path), mode == CLI::AppFormatMode::All);
  }
};

// Prints what is to be said; returns the exit code.
int answer(const CLI::App& app, const CLI::ParseError& error) {
  const auto is = [&](CLI::ExitCodes code) { return error.get_exit_code() == static_cast<int>(code); };
  const bool lacks = is(CLI::ExitCodes::RequiredError), asks = is(CLI::ExitCodes::Success);
  // `seqto tun --help` asks about a word; help with a flag too many is help.
  const bool about_word = !words_below(*last_word(&app)).empty();
  if (const std::string unknown =
          lacks || is(CLI::ExitCodes::ExtrasError) || (asks && about_word) ? what_is_unknown(app) : "";
      !unknown.empty()) {
    cli::say(fmt::format("seqto: {}\nRun with --help for more information.\n", unknown));
  } else if (lacks && about_word) {
    cli::say(app.help());
  } else {
    if (asks || error.get_name() == "RuntimeError") return app.exit(error);  // the latter: the word has told all itself
    const std::string word = last_word(&app)->get_parent() ? " " + last_word(&app)->get_name() : "";
    const std::string what = is(CLI::ExitCodes::ExtrasError)
                                 ? fmt::format("'{}' found and not expected", fmt::join(app.remaining(true), " "))
                                 : error.what();
    cli::say(fmt::format("seqto{}: {}\nRun `seqto{} --help` for what it takes.\n", word, what, word));
  }
  return static_cast<int>(Code::kUsage);
}

// `seqto config.json` is `seqto tune --config config.json`: the published tool takes its configuration alone.
std::vector<std::string> arguments(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && (words[0].ends_with(".json") || words[0].ends_with(".toml")) &&
      std::filesystem::is_regular_file(words[0]))
    words.insert(words.begin(), {"tune", "--config"});
  std::ranges::reverse(words);  // as the parser takes them
  return words;
}

int run(int argc, char** argv, cli::ProgressLine& line) {
  CLI::App app{"Finds which layers of an ONNX model to quantize, and how.", "seqto"};
  app.formatter(std::make_shared<HelpTexts>());
  app.set_help_flag("-h,--help", "The flags that most need");
  app.set_help_all_flag("--help-all", "All flags");
  app.set_version_flag("--version", "seqto " SEQTO_VERSION);
  app.add_flag_function(
         "--licenses",
         [](int64_t) {
           fmt::print("{}", internal::licences_text());
           throw CLI::Success();
         },
         "What of others the program holds, with their licences")
      ->trigger_on_parse();
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
    context.env.cancelled = [] { return interrupted || unread; };
    if (!quiet) context.env.progress = [&line](const Progress& p) { line.show(p); };
  });
  cli::add_inspect(&app, context);
  cli::add_prepare(&app, context);
  cli::add_calibrate(&app, context);
  cli::add_quantize(&app, context);
  cli::add_analyze(&app, context);
  cli::add_tune(&app, context);
  cli::add_ask(&app, context);
  cli::add_eval(&app, context);
  cli::add_tell(&app, context);
  cli::add_run(&app, context);
  cli::add_validate(&app, context);
  cli::add_plan(&app, context);
  cli::add_bench(&app, context);
  cli::add_check(&app, context);
  cli::add_audit(&app, context);
  cli::add_lint(&app, context);
  cli::add_report(&app, context);
  cli::add_device(&app, context);
  cli::add_hub(&app, context);
  cli::add_worker(&app, context);
  cli::add_completion(&app);
  cli::add_man(&app);
  cli::add_help(&app);
  cli::add_version(&app, context);
  try {
    app.parse(arguments(argc, argv));
    return 0;
  } catch (const CLI::ParseError& error) {
    return answer(app, error);
  }
}

// Libraries wrap what they caught in an exception of their own.
bool says_no_memory(const std::exception& error) {
  return std::string_view(error.what()).find("bad_alloc") != std::string_view::npos;
}

int run_to_end(int argc, char** argv) {
  take_signals();
  cli::ProgressLine line(::isatty(2) == 1);
  try {
    return run(argc, argv, line);
  } catch (const Error& error) {
    line.clear();
    cli::say(fmt::format("seqto: {}\n", error.what()));
    return static_cast<int>(error.code());
  } catch (const std::filesystem::filesystem_error& error) {
    line.clear();
    cli::say(fmt::format("seqto: [files] {}; a path that this user may read expected\n", error.what()));
    return static_cast<int>(Code::kInvalidInput);
  } catch (const std::exception& error) {
    if (unread) return static_cast<int>(Code::kInterrupted);  // printing failed
    line.clear();
    if (says_no_memory(error)) {
      cli::say(fmt::format("seqto: {}\n", kNoMemory));
      return static_cast<int>(Code::kUnavailable);
    }
    cli::say(fmt::format("seqto: internal error: {}; please report it with the command that led here\n", error.what()));
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

void seqto::cli::run_program(int argc, char** argv) { leave(run_to_end(argc, argv)); }
