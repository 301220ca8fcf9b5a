// Two files as the gate sees them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/machine.h"
#include "metrics/limits.h"
#include "metrics/loss/other_shapes.h"
#include "metrics/node_by_node.h"
#include "metrics/scored_pair.h"
#include "metrics/zero_scores.h"
#include "quantization/arithmetic/arithmetic.h"
#include "seqto/gate.h"
#include "seqto/recipe.h"

namespace seqto {
namespace {

// With those that hold its weights.
struct ModelFile {
  int64_t size_bytes = 0;
  std::string sha256;
};

ModelFile file_of(const std::string& path) {
  const Model model = load_model(path);
  return {model_file_bytes(path, model), model_sha256(path, model)};
}

// Losses against such outputs are no numbers.
std::string note_on_not_finite(const ParitySide& reference, const Sample& sample) {
  const std::string origin = internal::first_not_finite(load_model(reference.path), *reference.runner, sample.inputs);
  return fmt::format(
      "the reference's output holds NaN or infinity for sample '{}'{}; check the model there and the "
      "preprocessing",
      sample.name, origin.empty() ? "" : ", from " + origin);
}

// Minus infinity keeps what it stands for from being chosen.
bool is_at_fault(const Tensor& tensor) {
  return tensor.is_float() && std::ranges::any_of(internal::to_floats(tensor), [](float v) {
           return !std::isfinite(v) && v != -std::numeric_limits<float>::infinity();
         });
}

// From a score of such outputs nothing is known to drop: not a number meets no limit.
void make_drops_unknown(Figures& figures) {
  for (auto& [name, figure] : figures)
    if (internal::dropped_metric(name)) figure = {std::nan(""), std::nullopt};
}

}  // namespace

Measured measure_pair(const ParitySide& reference, const ParitySide& candidate, const Env& env,
                      const MetricOptions& metrics, const Metrics& own) {
  auto first = reference.runner->load_file(reference.path), second = candidate.runner->load_file(candidate.path);
  const bool same = candidate.data == reference.data;
  const std::vector<std::string> names = first->output_names();
  const std::vector<size_t> at = internal::places(names, second->output_names());
  internal::ScoredPair scored(metrics, own, reference.path, {names, names}, reference.data->has_labels());
  std::string not_finite;
  bool at_fault = false;
  for (int64_t i = 0; i < reference.data->size(); ++i) {
    env.stop_if_cancelled("check");
    const Sample sample = reference.data->read(i);
    const std::vector<Tensor> wanted = run_sample(*first, sample);
    if (not_finite.empty() && !std::ranges::all_of(wanted, internal::is_finite))
      not_finite = note_on_not_finite(reference, sample);
    at_fault = at_fault || std::ranges::any_of(wanted, is_at_fault);
    const std::vector<Tensor> found = run_sample(*second, same ? sample : candidate.data->read(i));
    scored.append(sample, wanted, internal::in_order(found, at));
    env.progress({"check", i + 1, reference.data->size(), ""});
  }
  auto [before, after] = scored.measured(env);
  const ModelFile was = file_of(reference.path), is = file_of(candidate.path);
  before.size_bytes = was.size_bytes, after.size_bytes = is.size_bytes;
  Measured m;
  m.candidate = candidate.path;
  m.model_sha256 = is.sha256;
  m.reference_sha256 = was.sha256;
  m.data = reference.data->fingerprint();
  m.samples = reference.data->size();
  m.random_inputs = reference.data->is_random();
  m.runner = candidate.runner->description();
  m.machine = processor_name();
  m.seqto = SEQTO_VERSION;
  m.loss = scored.loss();
  m.figures = figures_of(after, before);
  const bool is_mask = std::isfinite(after.losses.kl) && std::isfinite(after.losses.nmse);
  if (!not_finite.empty() && !is_mask) {
    m.notes.push_back(std::move(not_finite));
    if (at_fault) make_drops_unknown(m.figures);
  }
  for (const std::string& note : {internal::note_on_zero_scores(before), internal::note_on_other_shapes(after)})
    if (!note.empty()) m.notes.push_back(note);
  return m;
}

Measured measure_size(const std::string& path) {
  const ModelFile file = file_of(path);
  Measured m;
  m.candidate = path;
  m.model_sha256 = file.sha256;
  m.machine = processor_name();
  m.seqto = SEQTO_VERSION;
  m.figures["size_bytes"] = {static_cast<double>(file.size_bytes), std::nullopt};
  return m;
}

void add_latency(Measured& measured, const BenchResult& result) {
  const BenchedModel &first = result.models.at(0), &second = result.models.at(1);
  const BenchComparison& c = result.comparisons.at(0);
  const auto p50 = static_cast<double>(second.p50_ns), base = static_cast<double>(first.p50_ns);
  measured.figures["latency_ratio"] = {c.ratio, c.ratio_interval};
  // By the paired rounds, around what is told.
  measured.figures["latency_ns"] = {
      p50, Interval{std::min(p50, base * c.ratio_interval.low), std::max(p50, base * c.ratio_interval.high)}};
}

}  // namespace seqto
