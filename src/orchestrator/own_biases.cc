#include "orchestrator/own_biases.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/files.h"
#include "orchestrator/improvements.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

std::string note_of(const Plan& plan) { return "biases of " + plan.hash(); }

}  // namespace

std::filesystem::path OwnBiases::file(const Plan& plan) const {
  return c_.options.output / "biases" / (plan.hash() + ".npz");
}

bool OwnBiases::serves(const Plan& plan) const {
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

double OwnBiases::loss(const Model& candidate) const {
  const auto session = c_.judge.runner->load(candidate);
  return objective(measure(*session, c_.judge.acceptance, c_.env).measurement, followed_loss(c_.options.objectives));
}

SchemeCorrections OwnBiases::find(const Plan& plan, const Model& candidate) const {
  SchemeCorrections found;
  for (auto& [layer, shifts] :
       bias_shifts(c_.model, candidate, BiasCorrection::kFull, c_.data, c_.samples, c_.observer, c_.env))
    found[detailed_scheme(plan, layer)].shifts[layer] = shifts;
  return found;
}

void OwnBiases::save(const Plan& plan, const SchemeCorrections& found) const {
  make_writable_folder(file(plan).parent_path());
  save_corrections(found, file(plan));
}

Model OwnBiases::as_found(const Plan& plan, Model candidate) const {
  const std::string* taken = c_.study.noted(note_of(plan));
  if (!taken || *taken != "true") return candidate;
  if (!std::filesystem::exists(file(plan))) save(plan, find(plan, candidate));
  return apply(load_corrections(file(plan)), std::move(candidate), plan);
}

Model OwnBiases::corrected(const Plan& plan, Model candidate) {
  if (c_.study.noted(note_of(plan))) return as_found(plan, std::move(candidate));
  if (!serves(plan)) return candidate;
  bool lowers = false;
  try {
    const SchemeCorrections found = find(plan, candidate);
    Model shifted = apply(found, candidate, plan);
    lowers = loss(shifted) < loss(candidate);
    if (lowers) {
      save(plan, found);
      candidate = std::move(shifted);
    }
  } catch (const Error& error) {
    // A candidate that cannot run says so when it is measured.
    if (error.code() != Code::kInvalidInput) throw;
    c_.env.log(LogLevel::kWarning, fmt::format("biases of plan {} stay as they are: {}", plan.hash(), error.what()));
  }
  c_.study.note(note_of(plan), lowers ? "true" : "false");
  return candidate;
}

}  // namespace seqto::internal
