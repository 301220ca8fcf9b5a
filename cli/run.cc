// seqto run: raw outputs over the data.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "metric_flags.h"
#include "print_json.h"
#include "seqto/report.h"
#include "word_flags.h"

namespace seqto::cli {
namespace {

struct Flags {
  WordFlags word;
  MetricOptions metrics;
};

// Of each sample, of each output.
using Shapes = std::vector<std::vector<std::vector<int64_t>>>;

bool has_one_shape(const Shapes& shapes, size_t output) {
  return std::ranges::all_of(shapes, [&](const auto& sample) { return sample[output] == shapes[0][output]; });
}

std::vector<Initializer> arrays_of(Answers answers, const Shapes& shapes) {
  std::vector<Initializer> arrays;
  for (size_t o = 0; o < answers.outputs.size(); ++o) {
    if (!has_one_shape(shapes, o)) {
      for (size_t i = 0; i < shapes.size(); ++i) {
        const std::span<const float> row = answers.outputs[o].row(static_cast<int64_t>(i));
        arrays.push_back(
            {fmt::format("{}.{}", answers.names[o], i), float_tensor(shapes[i][o], {row.begin(), row.end()})});
      }
      continue;
    }
    // The batch axis of 1 becomes the axis of samples.
    std::vector<int64_t> shape = answers.dims[o];
    Outputs& output = answers.outputs[o];
    if (!shape.empty() && shape[0] == 1) shape[0] = output.rows;
    else shape.insert(shape.begin(), output.rows);
    arrays.push_back({answers.names[o], float_tensor(shape, std::move(output.values))});
  }
  return arrays;
}

void say_which_differ(const std::vector<std::string>& outputs, const Shapes& shapes, const Env& env) {
  for (size_t o = 0; o < outputs.size(); ++o)
    if (!has_one_shape(shapes, o))
      env.log(LogLevel::kInfo,
              fmt::format("samples answer '{0}' in several shapes: it is written as an array for each, "
                          "'{0}.0' to '{0}.{1}'",
                          outputs[o], shapes.size() - 1));
}

void print_result(const std::string& file, const std::vector<std::string>& outputs, int64_t samples,
                  const Measurement& measurement) {
  nlohmann::ordered_json json{{"output", file}, {"outputs", outputs}, {"samples", samples}};
  if (!measurement.metrics.empty()) {
    json["metrics"] = measurement.metrics;
    json["lower_is_better"] = measurement.lower_is_better;
    json["intervals"] = nlohmann::ordered_json::object();
    for (const auto& [name, interval] : measurement.intervals) json["intervals"][name] = {interval.low, interval.high};
  }
  print_json(json);
}

void run_command(const Flags& flags, const Context& context) {
  const WordFlags& f = flags.word;
  const Metrics metrics = make_metrics(flags.metrics);
  const std::string file = model_file(f.model, f.hub, context);
  Model model = load_model(file);
  auto data = open_data(file, model, f.data, context);
  auto runner = safe_runner_for(model, f.data, f.device.device, f.device.options, context);
  auto session = runner->load_file(file);
  // What is written has all positions; metrics see those that the mask counts.
  Answers answers(session->output_names()), counted(session->output_names());
  std::vector<Truth> truths;
  Shapes shapes;
  for (int64_t i : all_samples(*data)) {
    context.env.stop_if_cancelled("run");
    const Sample sample = data->read(i);
    const std::vector<Tensor> outputs = run_sample(*session, sample);
    answers.append(outputs);
    if (!metrics.empty()) counted.append(outputs, sample.counted);
    std::ranges::transform(outputs, std::back_inserter(shapes.emplace_back()), &Tensor::dims);
    truths.push_back(truth_of(sample));
    context.env.progress({"run", i + 1, data->size(), ""});
  }
  Measurement measurement;
  measure_task(measurement, metrics, counted, counted, truths);
  const std::vector<Initializer> arrays = arrays_of(std::move(answers), shapes);
  save_npz(f.output, arrays);
  say_which_differ(session->output_names(), shapes, context.env);
  if (context.json) return print_result(f.output, session->output_names(), data->size(), measurement);
  fmt::print("wrote {} outputs of {} samples to {}\n{}", session->output_names().size(), data->size(), f.output,
             task_metrics_text(measurement));
}

}  // namespace

void add_run(Command app, Context& context) {
  auto f = std::make_shared<Flags>();
  const Command word = add_word(app, "run", "A model's raw outputs over the data", f->word, true);
  word.under("Output")
      .add_option("-o,--output", f->word.output,
                  ".npz to write: an array per output, NAME; where samples differ in shape NAME.0, NAME.1 ...")
      .required();
  add_metric_flags(word, f->metrics);
  add_print_config_flag(word);
  word.callback([=, &context] { run_command(*f, context); });
}

}  // namespace seqto::cli
