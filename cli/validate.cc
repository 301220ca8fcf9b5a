// seqto validate: parity of two models.
#include <fmt/format.h>

#include "config_flags.h"
#include "flags.h"
#include "seqto/error.h"
#include "seqto/verdicts.h"

namespace seqto::cli {
namespace {

struct Flags {
  std::string reference, candidate, reference_device = "cpu", report;
  DataFlags data;
  DeviceFlags device;
  ParityOptions options;
};

// Samples as a model's own inputs want them.
std::unique_ptr<Dataset> samples_for(const Model& model, const DataFlags& data) {
  return open_dataset(data.path, model.graph.free_inputs(), data.options);
}

bool same_inputs(const Model& a, const Model& b) {
  return std::ranges::equal(a.graph.free_inputs(), b.graph.free_inputs(), [](const ValueInfo& x, const ValueInfo& y) {
    return x.name == y.name && x.type == y.type;
  });
}

Parity parity_of(const Flags& f, const Context& context) {
  Model reference = load_model(f.reference), candidate = load_model(f.candidate);
  require_same_signature(reference, candidate);
  auto data = samples_for(reference, f.data);
  auto other_data = same_inputs(reference, candidate) ? nullptr : samples_for(candidate, f.data);
  auto runner = runner_for(reference, f.data, f.reference_device, f.device.options, context);
  auto other_runner = f.device.device == f.reference_device
                          ? nullptr
                          : runner_for(candidate, f.data, f.device.device, f.device.options, context);
  return validate({f.reference, runner.get(), data.get()},
                  {f.candidate, (other_runner ? other_runner : runner).get(), (other_data ? other_data : data).get()},
                  f.options, context.env);
}

void validate_command(const Flags& f, const Context& context) {
  if (!f.report.empty()) require_report_name(f.report);
  Parity parity = parity_of(f, context);
  if (!f.report.empty()) write_parity(parity, f.report);
  fmt::print("{}", context.json ? parity_to_json(parity) : parity_text(parity));
  if (!passed(parity))
    throw Error(
        Code::kGateNotMet,
        fmt::format("[validate] {} of {} outputs found outside the limits; max abs {} and mean abs {} at most "
                    "expected; the result says where",
                    parity_failures(parity).size(), parity.outputs.size(), f.options.abs_tol, f.options.mean_tol));
}

}  // namespace

void add_validate(CLI::App& app, Context& context) {
  auto f = std::make_shared<Flags>();
  auto* word = app.add_subcommand("validate", "Parity: do two models give the same outputs? Code 5 where they do not");
  add_config_flag(word);
  word->add_option("reference", f->reference, "ONNX file, as it should be")->required();
  word->add_option("candidate", f->candidate, "ONNX file to compare with it: quantized, float16 ...")->required();
  add_data_flags(word, f->data, true);
  add_device_flags(word, f->device);
  word->add_option("--reference-device", f->reference_device, "Where the reference runs; --device is the candidate's")
      ->capture_default_str();
  word->add_option("--abs-tol", f->options.abs_tol, "The largest difference that any value may have")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  word->add_option("--mean-tol", f->options.mean_tol, "The largest mean difference of an output")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  word->add_option("--min-top1-agreement", f->options.min_top1_agreement,
                   "The smallest share of samples with the same first class (0: any)")
      ->check(CLI::Range(0.0, 1.0));
  word->add_option("--worst", f->options.worst, "Samples to list, worst first")->capture_default_str();
  word->add_option("--report", f->report, "Also write it to FILE.html, FILE.md or FILE.json");
  add_print_config_flag(word);
  word->callback([=, &context] { validate_command(*f, context); });
}

}  // namespace seqto::cli
