// ask, eval and tell: one study on many machines.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <optional>
#include <sstream>
#include <utility>

#include "config_flags.h"
#include "seqto/ask.h"
#include "seqto/error.h"
#include "seqto/metrics.h"
#include "terminal.h"
#include "tune_flags.h"

namespace seqto::cli {
namespace {

namespace fs = std::filesystem;

// Where a machine has them; empty: as in the study's tune.toml.
struct Overrides {
  std::string model, data;
};

TuneOptions options_of_study(const fs::path& dir, const Overrides& here, const Context& context) {
  const fs::path file = dir / kConfigFile;
  if (!fs::exists(file))
    throw Error(Code::kInvalidInput, fmt::format("[study] {} not found; a study of the command expected; begin one "
                                                 "with `seqto tune MODEL --data DATA -o {} --begin`",
                                                 file.string(), dir.string()));
  const auto app = word_of_file();
  const Command word(app.get());
  TuneFlags f;
  add_tune_flags(word, f);
  read_config_flags(word, file);
  if (!here.model.empty()) f.model = here.model;
  if (!here.data.empty()) f.data.path = here.data;
  TuneAllOptions all = tune_options(word, f, context);
  all.tune.output = dir;
  all.tune.resume = true;
  // It has been; what lies beside the model still says how data are read.
  if (all.prepare_models || !f.decoders.empty())
    all.tune.dataset = with_files_beside(f.model, all.tune.data, all.tune.dataset, context.env);
  if (all.prepare_models) f.model = StudyFolder{dir}.prepared().string();
  if (!f.decoders.empty()) f.model = StudyFolder{dir}.pair().string();
  all.prepare_models = false;
  return options_for({"", f.model, {}}, all, context.env);
}

// What stands for lines: a JSON text, a file of such lines, or "-": what comes on stdin.
void for_each_line(const std::string& argument, const std::function<void(const std::string&)>& take) {
  const auto each = [&](std::istream& lines) {
    for (std::string line; std::getline(lines, line);)
      if (line.find_first_not_of(" \t\r") != std::string::npos) take(line);
  };
  if (argument.starts_with('{')) return take(argument);
  if (argument == "-") return each(std::cin);
  std::ifstream file(argument);
  if (!file)
    throw Error(Code::kInvalidInput,
                fmt::format("[lines] {} cannot be read; a JSON text, a file of such lines or - expected", argument));
  each(file);
}

// At once: who reads them waits.
class Lines {
 public:
  explicit Lines(int descriptor) : file_(::fdopen(descriptor, "w")) {}
  ~Lines() { std::fclose(file_); }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  void write(const std::string& line) {
    fmt::print(file_, "{}\n", line);
    if (std::fflush(file_) != 0) throw Error(Code::kUnavailable, "[eval] nobody reads the results any more");
  }

 private:
  std::FILE* file_;
};

void evaluate_all(const TuneOptions& options, const std::vector<std::string>& proposals, const Context& context) {
  Lines out(keep_stdout());
  Evaluator evaluator(options, context.env);
  std::string error;
  for (const std::string& argument : proposals) {
    if (argument == "-") out.write(R"({"ready":1})");
    for_each_line(argument, [&](const std::string& line) {
      const Result result = evaluator.answer(line);
      if (!result.trial) error = result.error;
      out.write(result_to_json(result));
    });
  }
  if (!error.empty()) throw Error(Code::kUnavailable, error);
}

void tell_all(const fs::path& dir, const std::vector<std::string>& arguments, const Context& context) {
  int64_t missing = 0;
  std::vector<Result> results;
  std::optional<Error> first;
  // What is refused says nothing of what follows.
  const auto take = [&](auto work) {
    try {
      work();
    } catch (const Error& error) {
      if (error.code() == Code::kInterrupted) throw;
      if (!first) first = error;
    }
  };
  const auto tell_them = [&] { missing = tell(dir, std::exchange(results, {}), context.env); };
  for (const std::string& argument : arguments)
    take([&] {
      for_each_line(argument, [&](const std::string& line) {
        take([&] {
          results.push_back(result_from_json(line));
          if (argument == "-") tell_them();  // who pipes them in may be killed
        });
      });
    });
  if (!results.empty()) take(tell_them);
  if (first) throw *first;
  context.env.log(LogLevel::kInfo, missing > 0
                                       ? fmt::format("{} results are missing before the next step", missing)
                                       : fmt::format("the step is complete; `seqto ask {}` goes on", dir.string()));
}

}  // namespace

void add_ask(Command app, Context& context) {
  auto dir = std::make_shared<std::string>();
  auto here = std::make_shared<Overrides>();
  const Command word = app.add_subcommand("ask", "What a study wants to have measured next, one JSON line each");
  word.add_option("dir", *dir, "Folder of a study, as `seqto tune ... --begin` makes it").required();
  word.add_option("--model", here->model, "The model, where it is not at the path that the study has");
  word.add_option("--data", here->data, "The same of the data");
  word.callback([=, &context] {
    const TuneOptions options = options_of_study(*dir, *here, context);
    std::vector<Proposal> proposals = asked(*dir, context.env);
    if (proposals.empty()) proposals = ask(options, context.env);
    for (const Proposal& proposal : proposals) fmt::print("{}\n", proposal_to_json(proposal));
    if (proposals.empty())
      context.env.log(LogLevel::kInfo,
                      fmt::format("the search is over; `seqto tune --config {}` measures its front on one machine and "
                                  "writes the report",
                                  (fs::path(*dir) / kConfigFile).string()));
  });
}

void add_eval(Command app, Context& context) {
  auto dir = std::make_shared<std::string>();
  auto proposals = std::make_shared<std::vector<std::string>>();
  auto here = std::make_shared<Overrides>();
  const Command word = app.add_subcommand("eval", "Measure what `seqto ask` printed, on any machine");
  word.add_option("dir", *dir, "Folder of the study, or a copy of it; nothing is written there").required();
  word.add_option("proposal", *proposals, "JSON lines: as text, in a file, or - for stdin, answered one by one")
      .required();
  word.add_option("--model", here->model, "The model, where it is not at the path that the study has");
  word.add_option("--data", here->data, "The same of the data");
  word.callback([=, &context] {
    end_on_signals();
    evaluate_all(options_of_study(*dir, *here, context), *proposals, context);
  });
}

void add_tell(Command app, Context& context) {
  auto dir = std::make_shared<std::string>();
  auto results = std::make_shared<std::vector<std::string>>();
  const Command word = app.add_subcommand("tell", "Take results of `seqto eval` into the study");
  word.add_option("dir", *dir, "Folder of the study").required();
  word.add_option("result", *results, "JSON lines: as text, in a file, or - for stdin").required();
  word.callback([=, &context] { tell_all(*dir, *results, context); });
}

}  // namespace seqto::cli
