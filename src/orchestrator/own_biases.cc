#include "orchestrator/own_biases.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/files.h"
#include "orchestrator/improvements.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

std::string note_of(const Plan& plan) { return "biases of " + plan.hash(); }

void save(const BiasShifts& shifts, const std::filesystem::path& path) {
  std::vector<Initializer> arrays;
  for (const auto& [layer, values] : shifts) arrays.push_back({layer, float_tensor({std::ssize(values)}, values)});
  make_writable_folder(path.parent_path());
  save_npz(path, arrays);
}

BiasShifts load(const std::filesystem::path& path) {
  BiasShifts shifts;
  for (const Initializer& array : load_arrays(path)) {
    const auto values = array.tensor.values<float>();
    shifts[array.name].assign(values.begin(), values.end());
  }
  return shifts;
}

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

BiasShifts OwnBiases::find(const Model& candidate) const {
  return bias_shifts(c_.model, candidate, BiasCorrection::kFull, c_.data, c_.samples, c_.observer, c_.env);
}

Model OwnBiases::as_found(const Plan& plan, Model candidate) const {
  const std::string* taken = c_.study.noted(note_of(plan));
  if (!taken || *taken != "true") return candidate;
  if (!std::filesystem::exists(file(plan))) save(find(candidate), file(plan));
  return shift_biases(candidate, load(file(plan)));
}

Model OwnBiases::corrected(const Plan& plan, Model candidate) {
  if (c_.study.noted(note_of(plan))) return as_found(plan, std::move(candidate));
  if (!serves(plan)) return candidate;
  bool lowers = false;
  try {
    const BiasShifts shifts = find(candidate);
    Model shifted = shift_biases(candidate, shifts);
    lowers = loss(shifted) < loss(candidate);
    if (lowers) {
      save(shifts, file(plan));
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
