// Two files as the gate sees them.
#include <fmt/format.h>

#include "base/hash.h"
#include "base/machine.h"
#include "seqto/error.h"
#include "seqto/gate.h"
#include "seqto/metrics.h"

namespace seqto {
namespace {

int64_t size_of(const std::string& path) { return model_file_bytes(path, load_model(path)); }

// Of the file and of those that hold its weights.
std::string hash_of(const std::string& path) {
  std::string hash = sha256_file(path);
  for (const auto& file : load_model(path).external_files) hash = sha256_hex(hash + sha256_file(file));
  return hash;
}

// The first output into `outputs`, all of them into `answers` where metrics want them.
void run_into(Outputs& outputs, Answers* answers, Session& session, const std::vector<Tensor>& inputs,
              const std::string& path) {
  const std::vector<Tensor> found = session.run(inputs);
  if (answers) answers->append(found);
  const Tensor& first = found.at(0);
  if (first.type() != DataType::kFloat && first.type() != DataType::kFloat16)
    throw Error(Code::kInvalidInput,
                fmt::format("[check] {}: the first output is {}; a float one was expected; put it first", path,
                            to_string(first.type())));
  std::vector<float> values(static_cast<size_t>(first.element_count()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(element(first, static_cast<int64_t>(i)));
  outputs.append(values);
}

}  // namespace

Measured measure_pair(const ParitySide& reference, const ParitySide& candidate, const Env& env,
                      const Metrics& metrics) {
  auto first = reference.runner->load_file(reference.path), second = candidate.runner->load_file(candidate.path);
  Outputs expected, found;
  Answers right(first->output_names()), answers(second->output_names());
  std::vector<int64_t> labels;
  std::vector<Truth> truths;
  const bool scored = !metrics.empty();
  const bool same = candidate.data == reference.data, labelled = reference.data->has_labels();
  for (int64_t i = 0; i < reference.data->size(); ++i) {
    env.stop_if_cancelled("check");
    const Sample sample = reference.data->read(i);
    run_into(expected, scored ? &right : nullptr, *first, sample.inputs, reference.path);
    run_into(found, scored ? &answers : nullptr, *second, same ? sample.inputs : candidate.data->read(i).inputs,
             candidate.path);
    if (scored) truths.push_back(truth_of(sample));
    if (labelled) labels.push_back(sample.label);
    env.progress({"check", i + 1, reference.data->size(), ""});
  }
  Measurement before{.size_bytes = size_of(reference.path)}, after{.size_bytes = size_of(candidate.path)};
  measure_outputs(before, expected, expected, labels);
  measure_outputs(after, expected, found, labels);
  measure_task(before, metrics, right, right, truths);
  measure_task(after, metrics, answers, right, truths);
  Measured m;
  m.candidate = candidate.path;
  m.model_sha256 = hash_of(candidate.path);
  m.reference_sha256 = hash_of(reference.path);
  m.data = reference.data->fingerprint();
  m.random_inputs = reference.data->is_random();
  m.runner = candidate.runner->description();
  m.machine = processor_name();
  m.seqto = SEQTO_VERSION;
  m.figures = figures_of(after, before);
  return m;
}

Measured measure_size(const std::string& path) {
  Measured m;
  m.candidate = path;
  m.model_sha256 = hash_of(path);
  m.machine = processor_name();
  m.seqto = SEQTO_VERSION;
  m.figures["size_bytes"] = {static_cast<double>(size_of(path)), std::nullopt};
  return m;
}

void add_latency(Measured& measured, const BenchResult& result) {
  const BenchedModel &first = result.models.at(0), &second = result.models.at(1);
  const BenchComparison& c = result.comparisons.at(0);
  const auto p50 = static_cast<double>(second.p50_ns), base = static_cast<double>(first.p50_ns);
  measured.figures["latency_ratio"] = {c.ratio, c.ratio_interval};
  measured.figures["latency_ns"] = {p50, Interval{base * c.ratio_interval.low, base * c.ratio_interval.high}};
}

}  // namespace seqto
