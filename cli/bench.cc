// seqto bench: models side by side.
#include <fmt/format.h>

#include "config_flags.h"
#include "flags.h"
#include "hub_flags.h"
#include "seqto/report.h"
#include "terminal.h"

namespace seqto::cli {
namespace {

struct Flags {
  std::vector<std::string> models;
  std::string report;
  DataFlags data{.path = "random"};
  DeviceFlags device;
  BenchOptions options;
  HubOptions hub;
};

void bench_command(Flags& f, const Context& context) {
  if (!f.report.empty()) require_report_name(f.report);
  if (f.data.path == "random" && f.data.options.samples == 0) f.data.options.samples = 10;
  std::vector<std::unique_ptr<Dataset>> data;
  std::vector<BenchInput> inputs;
  for (const auto& asked : f.models) {
    const std::string path = model_file(asked, f.hub, context);
    // The original's files beside it are those of all: what is made of it may lie elsewhere.
    const std::string& original = inputs.empty() ? path : inputs.front().path;
    data.push_back(open_data(original, load_model(path), f.data, context));
    inputs.push_back({path, data.back().get()});
  }
  f.options.device = f.device.device;
  f.options.runner = f.device.options;
  f.options.dataset = f.data.options;
  use_this_program(f.options.runner);
  BenchResult result = bench(inputs, f.options, context.env);
  for (size_t i = 0; i < f.models.size(); ++i) result.models[i].path = f.models[i];  // as they were asked for
  if (!f.report.empty()) write_bench(result, f.report);
  fmt::print("{}", context.json ? bench_to_json(result) : bench_text(result, stdout_style()));
}

}  // namespace

void add_bench(Command app, Context& context) {
  auto f = std::make_shared<Flags>();
  const Command word =
      app.add_subcommand("bench", "Latency, memory and size of models side by side; the first is the original");
  add_config_flag(word);
  word.add_option("models", f->models, "ONNX files, or hub:NAME; each is compared with the first").required();
  add_data_flags(word, f->data, false);
  add_device_flags(word, f->device);
  add_hub_flags(word, f->hub);
  BenchOptions& o = f->options;
  word.under("Time")
      .add_option("--launches", o.launches, "Times that fresh worker processes are started")
      .check_range(1, 1000)
      .capture_default_str();
  word.under("Time")
      .add_option("--rounds", o.rounds, "Rounds of each launch, the models in turn")
      .check_range(2, 1000000)
      .capture_default_str();
  word.under("Time")
      .add_option("--repeats", o.repeats, "Runs of a model in a round that count, after one that does not")
      .check_range(1, 1000000)
      .capture_default_str();
  word.under("Time")
      .add_option("--max-time", o.max_time_seconds, "Seconds after which rounds end early (0: no limit)")
      .check_not_negative()
      .capture_default_str();
  word.under("Output").add_option("--report", f->report, "Also write it to FILE.html, FILE.md or FILE.json");
  add_print_config_flag(word);
  word.callback([=, &context] { bench_command(*f, context); });
}

}  // namespace seqto::cli
