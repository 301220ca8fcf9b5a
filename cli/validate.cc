// seqto validate: parity of two models.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "config_flags.h"
#include "limit_flags.h"
#include "metric_flags.h"
#include "model_pair.h"
#include "seqto/error.h"
#include "seqto/report.h"
#include "terminal.h"

namespace seqto::cli {
namespace {

struct Flags {
  ModelPairFlags pair;
  ParityOptions options;
  LimitFlags limits;
  std::string report;
  bool invariance = false;
  int64_t padding = 0;
  std::vector<std::string> runtimes;  // the first is what the others are held against
};

// Where the data are: those of --data, else the test data that the hub has of the reference.
std::string data_of(const ModelPairFlags& f, const Context& context) {
  if (!f.data.path.empty()) return f.data.path;
  if (!names_hub_model(f.reference)) miss_option("--data");
  const HubFiles files = fetch_model(f.reference, true, f.hub, context.env);
  if (files.test_data.empty())
    throw Error(Code::kInvalidInput, fmt::format("[validate] the archive of {} holds no test_data_set folder; give "
                                                 "samples with --data",
                                                 f.reference));
  return files.test_data.front().parent_path().string();
}

Parity parity_of(const Flags& f, const Context& context) {
  ModelPairFlags pair = f.pair;
  pair.data.path = data_of(f.pair, context);
  Parity parity;
  if (!pair.candidate.empty()) {
    const ModelPair sides(pair, context);
    parity = validate(sides.reference(), sides.candidate(), f.options, context.env);
    parity.reference = pair.reference, parity.candidate = pair.candidate;  // as they were asked for
  } else {
    const std::string file = model_file(pair.reference, pair.hub, context);
    const Model model = load_model(file);
    auto data = open_data(file, model, pair.data, context);
    auto runner = safe_runner_for(model, pair.data, pair.device.device, pair.device.options, context);
    parity = validate_expected({file, runner.get(), data.get()}, f.options, context.env);
    parity.candidate = pair.reference;
  }
  return parity;
}

void invariance_command(const Flags& f, const Context& context) {
  if (!f.pair.candidate.empty() || !f.options.metrics.empty() || !f.limits.parsed().empty() ||
      !f.pair.data.options.states.empty())
    throw Error(Code::kUsage,
                "[validate] --invariance and a second model, metrics, limits or states found; one model and --data "
                "expected");
  const std::string file = model_file(f.pair.reference, f.pair.hub, context);
  const Model model = load_model(file);
  const ModelPairFlags& pair = f.pair;
  DataFlags asked = pair.data;
  asked.path = data_of(pair, context);
  const auto data = open_data(file, model, asked, context);
  const auto runner = safe_runner_for(model, pair.data, pair.device.device, pair.device.options, context);
  RunnerOptions more = f.pair.device.options;
  more.threads = more.threads == 2 ? 1 : 2;
  const auto other = safe_runner_for(model, pair.data, pair.device.device, more, context);
  Invariance found =
      find_variations({file, runner.get(), data.get()},
                      {.padding = f.padding, .other = other.get(), .other_threads = more.threads}, context.env);
  found.model = f.pair.reference;  // as it was asked for
  if (!f.report.empty()) write_invariance(found, f.report);
  fmt::print("{}", context.json ? invariance_to_json(found) : invariance_text(found, stdout_style()));
  if (passed(found)) return;
  const bool by_scales = std::ranges::any_of(found.variations, begins_at_a_scale);
  const bool by_rows = std::ranges::any_of(
      found.variations, [](const Variation& v) { return v.first && v.first->op_type == "MatMulNBits"; });
  throw Error(
      Code::kGateNotMet,
      fmt::format("[validate] answers found that depend on what they are computed with; the same bits expected; {}",
                  by_scales ? "int8_dynamic layers with --per-token, static ones and int8_weights give them"
                  : by_rows ? "4-bit weights with --int4-format folded give them"
                            : "the table says where it begins; kernels may add in another order, in float models too"));
}

void runtimes_command(const Flags& f, const Context& context) {
  if (f.invariance || f.pair.device.device != "cpu" || f.pair.reference_device != "cpu" ||
      !f.pair.data.options.states.empty())
    throw Error(
        Code::kUsage,
        "[validate] --runtimes and --invariance, a device or states found; --runtimes NAME,NAME alone expected");
  std::vector<std::string> names = f.runtimes, paths{f.pair.reference};
  if (names.size() == 1) names.insert(names.begin(), "cpu");
  if (!f.pair.candidate.empty()) paths.push_back(f.pair.candidate);
  std::vector<RuntimeFile> files;
  std::vector<Model> models;
  std::vector<std::unique_ptr<Dataset>> data;
  DataFlags asked = f.pair.data;
  asked.path = data_of(f.pair, context);
  for (const std::string& path : paths) {
    files.push_back({model_file(path, f.pair.hub, context)});
    models.push_back(load_model(files.back().path));
    data.push_back(open_data(files.front().path, models.back(), asked, context));
    files.back().data = data.back().get();
  }
  if (models.size() > 1) require_same_signature(models[0], models[1]);
  RunnerOptions options = f.pair.device.options;
  use_this_program(options);
  const RuntimeMatrix found = compare_runtimes(files, names, f.options, options, context.env);
  if (!f.report.empty()) write_runtimes(found, f.report);
  fmt::print("{}", context.json ? runtimes_to_json(found) : runtimes_text(found, stdout_style()));
  if (passed(found)) return;
  const auto failed = std::ranges::count_if(found.comparisons, [](const auto& c) { return !passed(c); });
  throw Error(Code::kGateNotMet, fmt::format("[validate] {} of {} comparisons of runtimes found outside the limits; "
                                             "none expected; the table says where each begins",
                                             failed, found.comparisons.size()));
}

// What the way of comparing that was chosen does not read.
void refuse_idle(const Command& word, const Flags& f) {
  const auto refuse = [&](std::initializer_list<const char*> flags, const char* because) {
    for (const char* flag : flags)
      if (word.count(flag) > 0) throw Error(Code::kUsage, fmt::format("[validate] {} {}", flag, because));
  };
  if (!f.invariance) refuse({"--pad-to"}, "without --invariance found; both expected");
  if (f.invariance)
    refuse({"--abs-tol", "--mean-tol", "--min-top1-agreement", "--confident", "--task", "--pooling", "--worst"},
           "with --invariance found, which compares bits; leave it out");
  else if (f.options.limits.empty())
    refuse({"--confident"}, "without a limit found; --max-loss NAME=VALUE or another one expected");
}

void validate_command(const Command& word, Flags& f, const Context& context) {
  if (!f.report.empty()) require_report_name(f.report);
  f.options.limits = f.limits.parsed();
  refuse_idle(word, f);
  if (!f.runtimes.empty()) return runtimes_command(f, context);
  if (f.invariance) return invariance_command(f, context);
  if (f.pair.candidate.empty() && (!f.options.metrics.empty() || !f.options.limits.empty()))
    throw Error(Code::kUsage,
                "[validate] task metrics or limits on them and one model found; two models expected, the reference and "
                "the candidate");
  Parity parity = parity_of(f, context);
  if (!f.report.empty()) write_parity(parity, f.report);
  fmt::print("{}", context.json ? parity_to_json(parity) : parity_text(parity, stdout_style()));
  if (passed(parity)) return;
  const auto outside = std::ranges::count_if(parity.outputs, [&](const auto& o) { return !passed(o, f.options); });
  std::string found = fmt::format("{} of {} outputs found outside the limits", outside, parity.outputs.size());
  if (parity.task)
    found += fmt::format(", {} of {} limits on figures not met",
                         std::ranges::count(parity.task->limits, false, &CheckedLimit::met), f.options.limits.size());
  throw Error(Code::kGateNotMet, fmt::format("[validate] {}; none expected; the result says where", found));
}

}  // namespace

void add_validate(Command app, Context& context) {
  auto f = std::make_shared<Flags>();
  const Command word =
      app.add_subcommand("validate", "Parity: do two models give the same outputs? Code 5 where they do not");
  add_config_flag(word);
  word.add_option("reference", f->pair.reference, "ONNX file, or hub:NAME, as it should be").required();
  word.add_option(
      "candidate", f->pair.candidate,
      "ONNX file, or hub:NAME, to compare with it: quantized, float16 ...; without: the outputs of ONNX's test data");
  add_model_pair_flags(word, f->pair);
  word.get_option("--data").description(
      "Folder of images, audio, .npz, .npy, test_data_set_<n>, or random (docs/guide/data.md); without, for hub:NAME: "
      "its "
      "test "
      "data");
  word.under("Limits")
      .add_option("--abs-tol", f->options.abs_tol, "The largest difference that any value may have")
      .check_not_negative()
      .capture_default_str();
  word.under("Limits")
      .add_option("--mean-tol", f->options.mean_tol, "The largest mean difference of an output")
      .check_not_negative()
      .capture_default_str();
  word.under("Limits")
      .add_option("--min-top1-agreement", f->options.min_top1_agreement,
                  "The smallest share of samples with the same first class (0: any)")
      .check_range(0.0, 1.0);
  add_metric_flags(word, f->options.metrics);
  add_task_flags(word, f->options.metrics);
  add_quality_limit_flags(word, f->limits);
  word.under("Limits").add_flag("--confident", f->options.gate.confident,
                                "The whole 95 % interval of a figure has to meet its limit");
  word.under("Goal")
      .add_option("--runtimes", f->runtimes,
                  "Run on each and compare: cpu,openvino,web,opencv,tvm:llvm,cpu@1.20 ...; the first is the reference")
      .delimiter(',')
      .one_value_each()
      .type_name("NAMES");
  word.under("Goal").add_flag("--invariance", f->invariance,
                              "Of one model: does a sample get the same bits in batches, filled up, on other threads?");
  word.under("Goal")
      .in_detail()
      .add_option("--pad-to", f->padding, "Of --invariance: positions to fill up to (default: the longest sample's)")
      .check_positive();
  word.under("Output").add_option("--worst", f->options.worst, "Samples to list, worst first").capture_default_str();
  word.under("Output").add_option("--report", f->report, "Also write it to FILE.html, FILE.md or FILE.json");
  add_print_config_flag(word);
  word.callback([=, &context] {
    // Who limits what matters does not ask for equal values as well.
    if (!f->limits.parsed().empty() && word.count("--abs-tol") + word.count("--mean-tol") == 0)
      f->options.abs_tol = f->options.mean_tol = std::numeric_limits<double>::infinity();
    validate_command(word, *f, context);
  });
}

}  // namespace seqto::cli
