// seqto check: a gate for CI.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "config_flags.h"
#include "flags.h"
#include "limit_flags.h"
#include "metric_flags.h"
#include "model_pair.h"
#include "seqto/error.h"
#include "seqto/report.h"
#include "terminal.h"

namespace seqto::cli {
namespace {

struct Flags {
  std::string subject, id = "selected", lock, against, junit, markdown, report;
  bool no_latency = false, device_given = false, id_given = false;
  std::string run_flag;  // that was given, and is read only where models run; empty: none
  ModelPairFlags pair;
  LimitFlags limits;
  MetricOptions metrics;
  GateOptions options;
};

bool needs_latency(const std::vector<Limit>& limits) {
  return std::ranges::any_of(limits, [](const Limit& l) { return l.figure.find("latency") != std::string::npos; });
}

// Of a model from the hub: by its name there.
Measured as_asked(const Flags& f, Measured measured) {
  measured.candidate = f.subject;
  return measured;
}

Measured in_study(const Flags& f, const std::string& dir, const std::string& id) {
  if (!f.run_flag.empty())
    throw Error(Code::kUsage,
                fmt::format("[check] {} with the study {} found; a study has figures of its own, and runs "
                            "nothing; leave it out, or check a model with --reference and --data",
                            f.run_flag, f.subject));
  return measured_in_study(dir, id, f.device_given ? f.pair.device.device : "");
}

Measured measure(Flags& f, const std::vector<Limit>& limits, const Context& context) {
  const auto candidate = candidate_of(f.subject);
  if (!candidate && std::filesystem::is_directory(f.subject)) return in_study(f, f.subject, f.id);
  if (f.id_given)
    throw Error(Code::kUsage,
                fmt::format("[check] --id with {} found, which names a model; leave --id out, or give the "
                            "folder of a study",
                            f.subject));
  if (candidate && f.pair.reference.empty()) return in_study(f, candidate->dir, candidate->id);
  if (!candidate && !names_hub_model(f.subject) && !std::filesystem::exists(f.subject))
    throw Error(Code::kInvalidInput,
                fmt::format("[check] {}: nothing found there; the folder of a study, its DIR:3, or an ONNX file or "
                            "hub:NAME with --reference and --data, expected; check the path",
                            f.subject));
  auto is_size = [](const Limit& l) { return l.figure == "size_bytes"; };
  if (f.pair.reference.empty() && f.lock.empty() && f.against.empty() && std::ranges::all_of(limits, is_size))
    return as_asked(f, measure_size(model_file(f.subject, f.pair.hub, context)));
  if (f.pair.reference.empty() || f.pair.data.path.empty())
    throw Error(Code::kUsage, fmt::format("[check] the model {} without --reference and --data found; the original and "
                                          "samples expected, or the folder of a study",
                                          f.subject));
  f.pair.candidate = f.subject;
  ModelPair pair(f.pair, context);
  Measured measured = as_asked(f, measure_pair(pair.reference(), pair.candidate(), context.env, f.metrics));
  if (!f.no_latency && (needs_latency(limits) || !f.lock.empty() || !f.against.empty()))
    add_latency(measured, pair.bench(context));
  return measured;
}

// The first flag that was given and that a study does not read.
std::string given_run_flag(const Command& word) {
  std::string flag = word.given_under("Input", "--id");
  if (flag.empty()) flag = word.given_under("Goal");
  if (flag.empty()) flag = word.given_under("Device", "--device");
  return flag.empty() && word.count("--no-latency") > 0 ? "--no-latency" : flag;
}

void check_command(Flags& f, const Context& context) {
  std::vector<Limit> limits = f.limits.parsed();
  if (limits.empty() && f.lock.empty() && f.against.empty())
    throw Error(Code::kUsage,
                "[check] no limit found; --max-loss, --max-size, --max-latency, --min-accuracy, "
                "--max-accuracy-drop, --against or --lock expected");
  if (!f.report.empty()) require_report_name(f.report);
  // Before the work, so that a broken file costs none.
  std::optional<Measured> before;
  if (!f.against.empty()) before = load_lock(f.against);
  GateResult result{measure(f, limits, context), {}, {}};
  if (before) {
    LockComparison locked =
        compare_lock(*before, result.measured, std::filesystem::path(f.against).filename().string());
    limits.insert(limits.end(), locked.limits.begin(), locked.limits.end());
    result.notes = std::move(locked.notes);
  }
  std::ranges::copy(result.measured.notes, std::back_inserter(result.notes));
  result.limits = check(result.measured.figures, with_loss(limits, result.measured.loss), f.options);
  if (!f.report.empty()) write_gate(result, f.report);
  if (!f.markdown.empty()) write_gate_markdown(result, f.markdown);
  if (!f.junit.empty()) write_gate_junit(result, f.junit);
  if (!f.lock.empty() && passed(result)) save_lock(result.measured, f.lock);
  fmt::print("{}", context.json ? gate_to_json(result) : gate_text(result, stdout_style()));
  if (!passed(result))
    throw Error(Code::kGateNotMet, fmt::format("[check] {}", fmt::join(gate_failures(result), "\n  ")));
}

}  // namespace

void add_check(Command app, Context& context) {
  auto f = std::make_shared<Flags>();
  const Command word =
      app.add_subcommand("check",
                         "A gate for CI: limits on a study's candidate or on a model; code 5 where one "
                         "is not met");
  add_config_flag(word);
  word.add_option("subject", f->subject,
                  "Folder of a study, its DIR:3, or an ONNX file or hub:NAME with --reference and --data")
      .required();
  word.under("Input")
      .add_option("--id", f->id, "Of a study: selected, a name (1, 2, 3 ...), an id or its beginning")
      .capture_default_str()
      .type_name("ID");
  word.under("Input").add_option("--reference", f->pair.reference,
                                 "The float model that an ONNX file came from, or hub:NAME");
  add_model_pair_flags(word, f->pair);
  word.get_option("--device").description("Where the model runs; of a study: one of its devices (default: its first)");
  add_limit_flags(word, f->limits);
  add_metric_flags(word, f->metrics);
  add_task_flags(word, f->metrics);
  word.under("Limits").add_flag("--confident", f->options.confident,
                                "The whole 95 % interval of a figure has to meet its limit");
  word.under("Limits").add_option("--lock", f->lock, "Where all limits are met: keep the figures in this file");
  word.under("Limits").add_option("--against", f->against,
                                  "No figure may be worse than this lock file's interval of it");
  word.under("Limits").in_detail().add_flag("--no-latency", f->no_latency,
                                            "Of an ONNX file, --lock and --against: take no latencies");
  word.under("Output").add_option("--junit", f->junit, "Also as JUnit XML, a test case for each limit");
  word.under("Output").add_option("--markdown", f->markdown, "Also as Markdown");
  word.under("Output").add_option("--report", f->report, "Also write it to FILE.html, FILE.md or FILE.json");
  add_print_config_flag(word);
  word.callback([=, &context] {
    f->device_given = word.count("--device") > 0;
    f->id_given = word.count("--id") > 0;
    f->run_flag = given_run_flag(word);
    check_command(*f, context);
  });
}

}  // namespace seqto::cli
