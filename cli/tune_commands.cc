// tune and report: the main job and its pictures.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>

#include "config_flags.h"
#include "seqto/ask.h"
#include "seqto/error.h"
#include "seqto/metrics.h"
#include "seqto/report.h"
#include "seqto/tune.h"
#include "terminal.h"
#include "tune_flags.h"

namespace seqto::cli {
namespace {

// Also where there is no terminal a line has an end: some columns are for one that is wide, and COLUMNS is heeded.
TextStyle summary_style() { return {columns_of(STDOUT_FILENO), takes_colours(STDOUT_FILENO)}; }

void show(const Summary& summary, const std::filesystem::path& dir, const Context& context) {
  if (context.json) {
    fmt::print("{}\n", summary_to_json(summary));
    return;
  }
  fmt::print("{}\nreport: {}\n", summary_table(summary, summary_style()), StudyFolder{dir}.report().string());
  const std::filesystem::path halves = StudyFolder{dir}.selected_pair();
  if (std::filesystem::is_directory(halves))
    fmt::print("encoder and decoder of the selected model: {}\n", halves.string());
}

void show_all(const std::vector<OverviewEntry>& entries, const std::filesystem::path& dir, const Context& context) {
  if (context.json) fmt::print("{}\n", overview_to_json(entries));
  else fmt::print("{}\nall: {}\n", overview_table(entries, summary_style()), (dir / "index.html").string());
}

// As the table calls it.
std::string selected_name(const Summary& summary) {
  for (const auto* list : {&summary.front, &summary.trials})
    for (const SummaryPoint& p : *list)
      if (p.trial.id == summary.selected) return p.name;
  return summary.selected;
}

// Nothing where a point meets all limits.
std::string missed_limits(const Summary& summary) {
  const GateResult result{.measured = {.candidate = summary.selected}, .limits = summary.limits};
  if (passed(result)) return {};
  return fmt::format("no point of the front meets every limit; the nearest is {}: {}", selected_name(summary),
                     fmt::join(gate_failures(result), "; "));
}

// After the results are shown: they are there whether or not a point will do.
void require_limits(const Summary& summary) {
  if (const std::string missed = missed_limits(summary); !missed.empty())
    throw Error(Code::kGateNotMet, "[tune] " + missed);
}

// Of all at once. Why a model failed was said when it did.
void require_all(const std::vector<OverviewEntry>& entries) {
  std::vector<std::string> failed, said;
  for (const OverviewEntry& entry : entries) {
    if (!entry.summary) failed.push_back(entry.name);
    else if (const std::string missed = missed_limits(*entry.summary); !missed.empty())
      said.push_back(fmt::format("{}: {}", entry.name, missed));
  }
  if (!failed.empty())
    said.insert(said.begin(),
                fmt::format("{} of {} models failed: {}", failed.size(), entries.size(), fmt::join(failed, ", ")));
  if (said.empty()) return;
  throw Error(failed.empty() ? Code::kGateNotMet : Code::kInvalidInput,
              fmt::format("[tune] {}", fmt::join(said, "\n")));
}

void require_one_encoder(const TuneFlags& f) {
  if (!f.decoders.empty() && names_several(f.model))
    throw Error(Code::kUsage, fmt::format("[tune] a decoder beside {}, which names several models, found; one encoder "
                                          "expected",
                                          f.model));
}

void tune_models(const TuneFlags& f, const TuneAllOptions& options, const Context& context) {
  require_one_encoder(f);
  const std::string& asked = f.model;
  const std::filesystem::path& dir = options.tune.output;
  auto models = find_models(asked, options, context.env);
  models.front().decoders = {f.decoders.begin(), f.decoders.end()};
  if (!names_several(asked)) {
    const Summary summary = tune_one(models.front(), options, context.env);
    show(summary, dir, context);
    return require_limits(summary);
  }
  auto entries = tune_all(models, options, context.env);
  show_all(entries, dir, context);
  require_all(entries);
}

// For others to go on with.
void begin_study(const TuneFlags& f, const TuneAllOptions& options, const Context& context) {
  if (names_several(f.model))
    throw Error(Code::kUsage, "[tune] --begin with several models found; one expected: a study each");
  const TuneOptions one = options_for({"", f.model, {f.decoders.begin(), f.decoders.end()}}, options, context.env);
  const size_t count = ask(one, context.env).size();
  context.env.log(LogLevel::kInfo, fmt::format("begun: {} candidates to measure; `seqto ask {}` prints them", count,
                                               one.output.string()));
}

// A file's reports lie in a folder called like it; those of a folder's files each in one, with one page of all.
void report_published_results(const std::vector<std::filesystem::path>& files, const std::filesystem::path& asked,
                              std::filesystem::path output, const Context& context) {
  if (files.size() == 1 && files.front() == asked) {
    if (output.empty()) output = std::filesystem::path(asked).replace_extension();
    return show(report_published(asked, output), output, context);
  }
  if (output.empty()) output = asked;
  std::vector<OverviewEntry> entries;
  for (const auto& file : files) {
    std::string name = file.stem().string();
    entries.push_back({name, report_published(file, output / name), ""});
  }
  write_overview(entries, output);
  show_all(entries, output, context);
}

void compare(const std::vector<std::filesystem::path>& dirs, std::filesystem::path output, const Context& context) {
  for (const auto& dir : dirs)
    if (!published_results(dir).empty())
      throw Error(Code::kUsage, fmt::format("[report] {} holds results of the published tool; only folders that `seqto "
                                            "tune` wrote can be compared; leave it out",
                                            dir.string()));
  if (output.empty()) output = "comparison";
  const Comparison comparison = compare_studies(dirs);
  write_comparison(comparison, output);
  if (context.json) fmt::print("{}", comparison_to_json(comparison));
  else
    fmt::print("{}comparison: {}\n", comparison_text(comparison, stdout_style()),
               (output / "comparison.html").string());
}

}  // namespace

void add_tune(Command app, Context& context) {
  auto f = std::make_shared<TuneFlags>();
  auto begin = std::make_shared<bool>(false);
  const Command word = app.add_subcommand("tune", "The main job: the front of accuracy, size and latency");
  add_tune_flags(word, *f);
  word.under("Time").in_detail().add_flag(
      "--begin", *begin, "Only what comes before the search; `seqto ask` goes on with it (docs/guide/cluster.md)");
  add_print_config_flag(word, &f->devices);
  word.callback([=, &context] {
    TuneAllOptions all = tune_options(word, *f, context);
    if (!names_several(f->model)) all.tune.config = config_of_study(word, f->devices);
    if (*begin) return begin_study(*f, all, context);
    tune_models(*f, all, context);
  });
}

void add_report(Command app, Context& context) {
  auto dirs = std::make_shared<std::vector<std::string>>();
  auto output = std::make_shared<std::string>();
  const Command word = app.add_subcommand("report", "Draw the reports of a study again, without any runtime");
  word.add_option("dir", *dirs,
                  "Folder that `seqto tune` wrote, several to compare them; or the published tool's *_out.json, or a "
                  "folder of them")
      .required();
  word.add_option(
      "-o,--output", *output,
      "Where the page goes: of a comparison (default: the folder comparison), of results of the published tool "
      "(default: beside)");
  word.callback([=, &context] {
    if (dirs->size() > 1) return compare({dirs->begin(), dirs->end()}, *output, context);
    const std::string& dir = dirs->front();
    auto published = published_results(dir);
    if (!published.empty()) return report_published_results(published, dir, *output, context);
    if (!output->empty())
      throw Error(Code::kUsage, "[report] --output found; a study's reports lie in its own folder; leave it out");
    show(report(dir), dir, context);
  });
}

}  // namespace seqto::cli
