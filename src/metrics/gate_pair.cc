// Two files as the gate sees them.
#include <fmt/format.h>

#include "base/hash.h"
#include "base/machine.h"
#include "metrics/loss_fields.h"
#include "seqto/error.h"
#include "seqto/gate.h"
#include "seqto/metrics.h"

namespace seqto {
namespace {

double size_of(const std::string& path) { return static_cast<double>(model_file_bytes(path, load_model(path))); }

// Of the file and of those that hold its weights.
std::string hash_of(const std::string& path) {
  std::string hash = sha256_file(path);
  for (const auto& file : load_model(path).external_files) hash = sha256_hex(hash + sha256_file(file));
  return hash;
}

Outputs one_row(Session& session, const std::vector<Tensor>& inputs, const std::string& path) {
  const Tensor first = session.run(inputs).at(0);
  if (first.type() != DataType::kFloat && first.type() != DataType::kFloat16)
    throw Error(Code::kInvalidInput,
                fmt::format("[check] {}: the first output is {}; a float one was expected; put it first", path,
                            to_string(first.type())));
  std::vector<float> values(static_cast<size_t>(first.element_count()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(element(first, static_cast<int64_t>(i)));
  Outputs row;
  row.append(values);
  return row;
}

// One value a sample.
using Series = std::map<std::string, std::vector<double>>;

void add_series(Figures& figures, const Series& series) {
  for (const auto& [name, values] : series) {
    double sum = 0;
    for (double v : values) sum += v;
    figures[name] = {sum / static_cast<double>(values.size()), bootstrap_mean(values)};
  }
}

// What every sample tells by itself; shares of right answers and how they fell.
void add_answers(Series& series, const Outputs& reference, const Outputs& candidate, int64_t label) {
  const auto was = task_metrics(reference, std::span(&label, 1)), is = task_metrics(candidate, std::span(&label, 1));
  for (const char* name : {"top1", "top5"}) {
    if (!was.contains(name) || !is.contains(name)) continue;
    series[name].push_back(is.at(name));
    series[fmt::format("{}_drop", name)].push_back(was.at(name) - is.at(name));
  }
}

}  // namespace

Measured measure_pair(const ParitySide& reference, const ParitySide& candidate, const Env& env) {
  auto first = reference.runner->load_file(reference.path), second = candidate.runner->load_file(candidate.path);
  Series series;
  Outputs all_first, all_second;
  std::vector<int64_t> labels;
  const bool same = candidate.data == reference.data, labelled = reference.data->has_labels();
  for (int64_t i = 0; i < reference.data->size(); ++i) {
    env.stop_if_cancelled("check");
    const Sample sample = reference.data->read(i);
    const Outputs expected = one_row(*first, sample.inputs, reference.path);
    const Outputs found = one_row(*second, same ? sample.inputs : candidate.data->read(i).inputs, candidate.path);
    const Losses losses = compare(expected, found);
    for (const LossField& field : kLossFields) series[std::string(field.name)].push_back(losses.*field.value);
    if (labelled && sample.label >= 0) {
      add_answers(series, expected, found, sample.label);
      all_first.append(expected.values);
      all_second.append(found.values);
      labels.push_back(sample.label);
    }
    env.progress({"check", i + 1, reference.data->size(), ""});
  }
  Measured m;
  m.candidate = candidate.path;
  m.model_sha256 = hash_of(candidate.path);
  m.reference_sha256 = hash_of(reference.path);
  m.data = reference.data->fingerprint();
  m.random_inputs = reference.data->is_random();
  m.runner = candidate.runner->description();
  m.machine = processor_name();
  m.seqto = SEQTO_VERSION;
  add_series(m.figures, series);
  if (!labels.empty()) {
    auto was = task_metrics(all_first, labels);
    for (const auto& [name, value] : task_metrics(all_second, labels)) {
      if (m.figures.contains(name)) continue;  // with an interval
      m.figures[name] = {value, std::nullopt};
      if (higher_is_better(name)) m.figures[name + "_drop"] = {was[name] - value, std::nullopt};
    }
  }
  const double size = size_of(candidate.path);
  m.figures["size_bytes"] = {size, std::nullopt};
  m.figures["size_ratio"] = {size / size_of(reference.path), std::nullopt};
  return m;
}

Measured measure_size(const std::string& path) {
  Measured m;
  m.candidate = path;
  m.model_sha256 = hash_of(path);
  m.machine = processor_name();
  m.seqto = SEQTO_VERSION;
  m.figures["size_bytes"] = {size_of(path), std::nullopt};
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
