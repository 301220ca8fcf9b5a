#include "orchestrator/tune/own_corrections.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/files.h"
#include "orchestrator/tune/improvements.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

// Values of the note, as JSON.
constexpr const char *kNone = "false", *kBiases = "\"biases\"", *kCodes = "\"codes\"";

std::string note_of(const Plan& plan) { return "own corrections of " + plan.hash(); }

}  // namespace

std::filesystem::path OwnCorrections::file(const Plan& plan) const {
  return c_.options.output / "own_corrections" / (plan.hash() + ".npz");
}

bool OwnCorrections::serves(const Plan& plan) const {
  if (c_.judge.acceptance.samples.empty() || is_hurried(c_.options) || !c_.options.dataset.states.empty() ||
      c_.options.quantize.format != QuantFormat::kQdq)
    return false;
  const auto corrected = std::ranges::find_if(plan.schemes, [&](const auto& layer) {
    if (!is_static(layer.second)) return false;
    const auto found = c_.corrections.find(detailed_scheme(plan, layer.first));
    return found != c_.corrections.end() && !found->second.empty();
  });
  if (corrected == plan.schemes.end()) return false;
  const DetailedScheme scheme = detailed_scheme(plan, corrected->first);
  return uniform_plan(c_.model, scheme, c_.options.quantize.exclude).hash() != plan.hash();
}

double OwnCorrections::loss(const Model& candidate) const {
  const auto session = c_.judge.runner->load(candidate);
  const Measurement measured = measure(*session, c_.judge.acceptance, c_.env).measurement;
  const std::string name = followed_loss(c_.options.objectives);
  return steady_loss(measured, name, objective(measured, name));
}

SchemeCorrections OwnCorrections::find_biases(const Plan& plan, const Model& candidate) const {
  SchemeCorrections found;
  for (auto& [layer, shifts] :
       bias_shifts(c_.model, candidate, BiasCorrection::kFull, {c_.data, c_.samples, c_.observer, c_.env}))
    found[detailed_scheme(plan, layer)].shifts[layer] = shifts;
  return found;
}

SchemeCorrections OwnCorrections::find_codes(const Plan& plan, const Model& candidate) const {
  const RoundingOptions options{.max_inputs = improvers_of(c_.options, Scheme::kInt8Weights).max_rounding_inputs};
  SchemeCorrections found;
  for (auto& [layer, rounded] :
       learn_rounding(c_.model, candidate, {c_.data, c_.samples, c_.observer, c_.env}, options)) {
    const DetailedScheme scheme = detailed_scheme(plan, layer);
    const auto shared = c_.corrections.find(scheme);
    if (shared != c_.corrections.end() && shared->second.rounding.contains(layer))
      found[scheme].rounding[layer] = std::move(rounded);
  }
  return found;
}

bool OwnCorrections::learns(const Plan& plan, const Model& candidate) const {
  const bool learned = std::ranges::any_of(c_.corrections, [](const auto& shared) {
    return is_static(shared.first.scheme) && !shared.second.rounding.empty();
  });
  return learned && c_.worth_learning && c_.worth_learning(plan, candidate);
}

void OwnCorrections::save(const Plan& plan, const SchemeCorrections& found) const {
  make_writable_folder(file(plan).parent_path());
  save_corrections(found, file(plan));
}

std::filesystem::path OwnCorrections::file_of(const Plan& plan) const {
  const std::string* taken = c_.study.noted(note_of(plan));
  return taken && *taken != kNone ? file(plan) : std::filesystem::path();
}

Model OwnCorrections::as_found(const Plan& plan, Model candidate) const {
  const std::string* taken = c_.study.noted(note_of(plan));
  if (!taken || *taken == kNone) return candidate;
  if (!std::filesystem::exists(file(plan)))
    save(plan, *taken == kCodes ? find_codes(plan, candidate) : find_biases(plan, candidate));
  return apply(load_corrections(file(plan)), std::move(candidate), plan);
}

Model OwnCorrections::corrected(const Plan& plan, Model candidate) {
  if (c_.study.noted(note_of(plan))) return as_found(plan, std::move(candidate));
  if (!serves(plan)) return candidate;
  const char* taken = kNone;
  try {
    double least = loss(candidate);
    std::optional<Model> best;
    const auto try_out = [&](const char* name, const SchemeCorrections& found) {
      Model other = apply(found, candidate, plan);
      const double lost = loss(other);
      if (lost >= least) return;
      least = lost, taken = name, best = std::move(other);
      save(plan, found);
    };
    try_out(kBiases, find_biases(plan, candidate));
    if (learns(plan, candidate)) try_out(kCodes, find_codes(plan, candidate));
    if (best) candidate = std::move(*best);
  } catch (const Error& error) {
    // A candidate that cannot run says so when it is measured.
    if (error.code() != Code::kInvalidInput) throw;
    c_.env.log(LogLevel::kWarning,
               fmt::format("codes and biases of plan {} stay as they are: {}", plan.hash(), error.what()));
  }
  c_.study.note(note_of(plan), taken);
  return candidate;
}

}  // namespace seqto::internal
