#include "tune_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "config_flags.h"
#include "hub_flags.h"
#include "seqto/error.h"

namespace seqto::cli {
namespace {

void add_worker_flags(Command any, TuneFlags& f) {
  const Command word = any.under("Device").in_detail();
  word.add_flag("--in-process", f.in_process,
                "Run candidates in this process, not in a worker: a crash of the runtime then ends the run");
  word.add_option("--worker-memory", f.device.options.worker_memory_bytes,
                  "Memory above which a worker is stopped and its candidate fails, as in 2G (0: no limit)")
      .read_size();
  word.add_option("--load-timeout", f.device.options.load_timeout_seconds, "Seconds to load a candidate (0: no limit)")
      .check_not_negative()
      .capture_default_str();
  word.add_option("--run-timeout", f.device.options.run_timeout_seconds, "Seconds for one run of it (0: no limit)")
      .check_not_negative()
      .capture_default_str();
}

void add_many_models_flags(Command any, TuneAllOptions& o) {
  const Command word = any.under("Model hub").in_detail();
  word.add_option("--hub-first", o.hub_first,
                  "Of the models that a glob finds, those from this position of the hub's list");
  word.add_option("--hub-last", o.hub_last, "... to this one");
  word.add_flag("--prepare-models", o.prepare_models,
                "Have the runtime and seqto prepare each model first, as `prepare` does");
  word.add_option("--exclude-if-present", o.exclude_if_present,
                  "Names of nodes that stay in float in models that have them")
      .delimiter(',')
      .type_name("NAME");
}

void take_quick_samples(TuneOptions& o) {
  if (!o.search_samples && searches(o)) o.search_samples = 16;
  if (o.evaluation_samples == 0) o.evaluation_samples = 64;
}

}  // namespace

void add_tune_flags(Command word, TuneFlags& f) {
  TuneOptions& o = f.all.tune;
  add_config_flag(word);
  word.add_option("model", f.model, "ONNX file, a folder of them, hub:NAME, or a glob of the hub").required();
  word.add_option("decoder", f.decoders, "Decoder of the encoder `model`, tuned with it; its files with a cache");
  add_data_flags(word, f.data, true);
  add_device_flags(word, f.device, &f.devices);
  add_worker_flags(word, f);
  add_quantize_flags(word.in_detail(), f.quantize);
  add_improve_flags(word, f.improve);
  word.under("Time").add_flag("--quick", f.improve.quick,
                              "A first look: nothing improved, 16 samples to search, 64 to judge");
  add_hub_flags(word, f.all.hub);
  add_many_models_flags(word, f.all);
  add_group_flags(word, f.groups);
  const Command goal = word.under("Goal"), search = word.under("Search"), time = word.under("Time");
  const Command input = word.under("Input");
  goal.add_option("--objectives", o.search.objectives, "What to minimise; default: kl,size,latency")
      .type_name(fmt::format("{}|top1|top5|f1|accuracy|mae|rmse|nme|map50|{}", fmt::join(loss_names(), "|"),
                             fmt::join(cost_names(), "|")))
      .delimiter(',');
  add_limit_flags(word, f.limits);
  goal.add_option("--tolerance", f.tolerance, "How much worse the selected model may be, if no limit is set")
      .type_name("SHARE")
      .capture_default_str();
  add_metric_flags(word, o.metrics);
  add_task_flags(word, o.metrics);
  word.under("Output").add_option("-o,--output", o.output, "Folder for the results").required();
  search.in_detail()
      .add_option("--strategy", o.strategy, "How the search goes (docs/design/search.md)")
      .type_name(fmt::format("{}", fmt::join(strategy_names(), "|")))
      .capture_default_str();
  search.add_option("--schemes", o.schemes, "To choose from, also with fields, as int8+per_channel=false")
      .type_name("float32|float16|int8|int8_dynamic|int8_weights|int4_weights|int8w_int16a")
      .delimiter(',');
  search.in_detail().add_flag("--invariant", o.invariant,
                              "Only schemes whose answers do not depend on what else is in the batch");
  search.in_detail()
      .add_option("--threshold", o.search.threshold, "Stop when rank_dissimilarity is at most this")
      .capture_default_str();
  time.in_detail()
      .add_option("--search-evaluations", o.search.evaluations,
                  "Trials on search and acceptance samples (0: the strategy's own measure)")
      .check_not_negative()
      .capture_default_str();
  search.in_detail().add_flag(
      "--racing,!--no-racing", o.search.racing,
      "Run candidates on as many search samples as tell enough of them (default), or on all (docs/design/search.md)");
  search.in_detail()
      .add_option("--max-front", o.search.front,
                  "Plans of the search's front to measure for the report; the best by each objective always are")
      .check_positive()
      .capture_default_str();
  time.in_detail()
      .add_option("--jobs", o.jobs, "Candidates that the search measures side by side (0: as there are cores)")
      .check_not_negative()
      .capture_default_str();
  time.in_detail()
      .add_option("--workers", o.workers, "Who measures the search's candidates instead (docs/guide/cluster.md)")
      .type_name("ray[:ADDRESS]|COMMAND");
  time.in_detail()
      .add_option("--max-evaluations", o.max_evaluations, "Stop after so many trials (0: no limit)")
      .check_not_negative();
  time.add_option("--max-time", o.max_time_seconds, "Seconds of the whole run (0: no limit)").check_not_negative();
  input.add_option("--calibration-samples", o.calibration_samples,
                   "Samples for the ranges (default: 50, or half of the data)");
  input.in_detail().add_option("--search-samples", o.search_samples,
                               "Samples for the search, half of them to confirm what it finds (default: at most 64)");
  input.add_option("--evaluation-samples", o.evaluation_samples, "Samples for the losses (0: all that are left)")
      .check_not_negative();
  search.in_detail()
      .add_option(
          "--audit-samples", o.audit_samples,
          "Audit the selected point on so many samples: would it be the same on --target, or on x86 without VNNI? "
          "(0: no; 8 where a target's sums have fewer than 32 bits)")
      .check_not_negative();
  word.under("Device")
      .in_detail()
      .add_option("--target", o.target,
                  "Files for another device than the one that measures (docs/reference/targets.md)")
      .type_name("NAME|FILE.toml");
  word.under("Device")
      .in_detail()
      .add_option("--chunk", o.message_samples, "Samples that go to a device behind a link in one message")
      .check_positive()
      .capture_default_str();
  input.in_detail()
      .add_option("--calibration-data", o.calibration_data,
                  "Data of its own for the ranges; --data is then for search and evaluation")
      .type_name("PATH");
  input.in_detail().add_option("--ranking-data", o.ranking_data, "Data of its own for the ranking").type_name("PATH");
  input.in_detail()
      .add_option("--ranking-samples", o.ranking_samples, "Of the calibration samples, those for the ranking")
      .check_not_negative()
      .capture_default_str();
  search.add_option("--exclude,--nodes-to-exclude", o.exclude, "Stay in float: names, globs or op:TYPE")
      .type_name("NAMES")
      .delimiter(',');
  search.in_detail().add_option(
      "--exclude-from", f.exclude_from,
      "Also what this plan leaves in float; a file, also of other tools, or DIR:3 of a study");
  time.add_flag("--resume,!--no-resume", o.resume, "Go on with the folder's study (default), or begin anew");
}

TuneAllOptions tune_options(Command word, TuneFlags& f, const Context& context) {
  TuneOptions& options = f.all.tune;
  options.data = f.data.path;
  options.dataset = f.data.options;
  options.devices = f.devices;
  options.runner = f.device.options;
  options.runner.isolated = !f.in_process;
  use_this_program(options.runner);
  options.quantize = f.quantize.parsed();
  f.improve.unasked = improves_unasked(options);
  if (f.improve.quick) take_quick_samples(options);
  const auto wide = [](const std::string& type) { return type.find("int16") != std::string::npos; };
  f.improve.add_options(options.quantize, f.quantize,
                        wide(f.quantize.activation_type) || std::ranges::any_of(options.schemes, wide));
  // A search is free to; the published procedure is not.
  if (searches(options) && !f.quantize.float_unlike_concat && !options.quantize.compat_onnxruntime)
    options.quantize.float_unlike_concat = true;
  options.calibrate = f.quantize.calibration();
  options.names_method = !f.quantize.calibrate.method.empty();
  for (const char* field : kTypeFields)
    if (word.count(flag_of(field)) > 0) options.fast_types = false;
  options.improvers = f.improve.parsed(Scheme::kInt8, options.quantize);
  options.correct_weights = !f.improve.quick && f.improve.improve.value_or(true) &&
                            word.count("--rounding") + word.count("--bias-correction") == 0;
  options.groups = f.groups.parsed();
  options.limits = f.limits.parsed();
  options.tolerance = parse_share("--tolerance", f.tolerance);
  if (!f.exclude_from.empty()) {
    if (!std::filesystem::is_regular_file(f.model))
      throw Error(Code::kUsage,
                  "[tune] --exclude-from for a model that is no file found; the plan names the layers of "
                  "one; give that model's file");
    const Model model = load_for_quantizing(f.model, options.quantize, context.env);
    for (auto& layer : float_layers(plan_file(f.exclude_from), model, context))
      options.exclude.push_back(std::move(layer));
  }
  return f.all;
}

}  // namespace seqto::cli
