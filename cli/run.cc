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

using Answer = std::vector<Tensor>;  // of one sample, a tensor for each output

bool has_one_shape(const std::vector<Answer>& answers, size_t output) {
  return std::ranges::all_of(answers, [&](const Answer& a) { return a[output].dims() == answers[0][output].dims(); });
}

// What numpy has a type for stays as it is: int64 has values that float32 has not.
Tensor as_numpy_has_it(const Tensor& tensor) {
  const DataType type = tensor.type();
  if (type != DataType::kBfloat16 && type != DataType::kFloat8e4m3fn && element_bits(type) >= 8) return tensor;
  std::vector<float> values;
  for (int64_t i = 0; i < tensor.element_count(); ++i) values.push_back(static_cast<float>(element(tensor, i)));
  return float_tensor(tensor.dims(), std::move(values));
}

// The batch axis of 1 becomes the axis of samples.
Tensor joined(const std::vector<Answer>& answers, size_t output) {
  std::vector<int64_t> shape = answers[0][output].dims();
  if (!shape.empty() && shape[0] == 1) shape[0] = std::ssize(answers);
  else shape.insert(shape.begin(), std::ssize(answers));
  std::vector<std::byte> bytes;
  for (const Answer& answer : answers) {
    const auto more = answer[output].bytes();
    bytes.insert(bytes.end(), more.begin(), more.end());
  }
  return Tensor::from(answers[0][output].type(), std::move(shape), std::move(bytes));
}

std::vector<Initializer> arrays_of(const std::vector<Answer>& answers, const std::vector<std::string>& outputs) {
  std::vector<Initializer> arrays;
  for (size_t o = 0; o < outputs.size() && !answers.empty(); ++o) {
    if (has_one_shape(answers, o)) arrays.push_back({outputs[o], joined(answers, o)});
    else
      for (size_t i = 0; i < answers.size(); ++i)
        arrays.push_back({fmt::format("{}.{}", outputs[o], i), answers[i][o]});
  }
  return arrays;
}

void say_which_differ(const std::vector<std::string>& outputs, const std::vector<Answer>& answers, const Env& env) {
  for (size_t o = 0; o < outputs.size(); ++o)
    if (!has_one_shape(answers, o))
      env.log(LogLevel::kInfo,
              fmt::format("samples answer '{0}' in several shapes: it is written as an array for each, "
                          "'{0}.0' to '{0}.{1}'",
                          outputs[o], answers.size() - 1));
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
  std::vector<Answer> answers;
  Answers counted(session->output_names());
  std::vector<Truth> truths;
  for (int64_t i : all_samples(*data)) {
    context.env.stop_if_cancelled("run");
    const Sample sample = data->read(i);
    const std::vector<Tensor> outputs = run_sample(*session, sample);
    if (answers.empty()) Answers(session->output_names()).append(outputs);  // refuses what is no number
    if (!metrics.empty()) counted.append(outputs, sample.counted);
    std::ranges::transform(outputs, std::back_inserter(answers.emplace_back()), as_numpy_has_it);
    truths.push_back(truth_of(sample));
    context.env.progress({"run", i + 1, data->size(), ""});
  }
  Measurement measurement;
  measure_task(measurement, metrics, counted, counted, truths);
  save_npz(f.output, arrays_of(answers, session->output_names()));
  say_which_differ(session->output_names(), answers, context.env);
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
