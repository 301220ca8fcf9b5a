#include "orchestrator/tune/own_corrections.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/files.h"
#include "orchestrator/study/study_files.h"
#include "orchestrator/tune/improvements.h"
#include "quantization/encode/eligible_layers.h"
#include "seqto/error.h"

namespace seqto::internal {
std::string OwnCorrections::id_of(const Plan& plan) const { return with_fields(c_.corrections, plan).hash(); }

std::filesystem::path OwnCorrections::file(const Plan& plan) const {
  return own_corrections_file(c_.bench.options.output, id_of(plan));
}

bool OwnCorrections::serves(const Plan& plan) const {
  if (c_.judge.acceptance.samples.empty() || is_hurried(c_.bench.options) || !c_.bench.options.dataset.states.empty())
    return false;
  const auto corrected = std::ranges::find_if(plan.schemes, [&](const auto& layer) {
    if (!is_static(layer.second)) return false;
    const auto found = c_.corrections.find(detailed_scheme(plan, layer.first));
    return found != c_.corrections.end() && !found->second.empty();
  });
  if (corrected == plan.schemes.end()) return false;
  const DetailedScheme scheme = detailed_scheme(plan, corrected->first);
  return eligible_plan(c_.bench.model, c_.bench.quantize, scheme).hash() != plan.hash();
}

double OwnCorrections::loss(const Model& candidate) const {
  const auto session = c_.judge.runner->load(candidate);
  const Measurement measured = measure(*session, c_.judge.acceptance, c_.bench.env).measurement;
  return steady_loss(measured, c_.loss, objective(measured, c_.loss));
}

Model OwnCorrections::candidate(const Plan& plan, const SchemeCorrections& own) const {
  return c_.quantizer.quantize(plan, {wanted(c_.corrections, plan), wanted(own, plan)});
}

SchemeCorrections OwnCorrections::find_biases(const Plan& plan) const {
  SchemeCorrections found;
  for (auto& [layer, shifts] : bias_shifts({c_.quantizer, plan, {wanted(c_.corrections, plan)}}, BiasCorrection::kFull,
                                           {c_.bench.data, c_.bench.samples, c_.bench.runner, c_.bench.env}))
    found[detailed_scheme(plan, layer)].shifts[layer] = shifts;
  return found;
}

SchemeCorrections OwnCorrections::find_codes(const Plan& plan) const {
  const RoundingOptions options{
      .max_inputs = improvers_of(c_.bench.options, c_.bench.model, Scheme::kInt8Weights).max_rounding_inputs};
  SchemeCorrections found;
  for (auto& [layer, rounded] :
       learn_rounding({c_.quantizer, plan, {wanted(c_.corrections, plan)}},
                      {c_.bench.data, c_.bench.samples, c_.bench.runner, c_.bench.env}, options)) {
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

OwnCorrection OwnCorrections::taken(const Plan& plan) const {
  return notes::own_corrections_of(id_of(plan)).in(c_.bench.study).value_or(OwnCorrection::kNone);
}

std::filesystem::path OwnCorrections::file_of(const Plan& plan) const {
  return taken(plan) == OwnCorrection::kNone ? std::filesystem::path() : file(plan);
}

Model OwnCorrections::as_found(const Plan& plan) const { return c_.quantizer.quantize(plan, found(plan)); }

std::vector<Corrections> OwnCorrections::found(const Plan& plan) const {
  const OwnCorrection kind = taken(plan);
  if (kind == OwnCorrection::kNone) return {wanted(c_.corrections, plan)};
  if (!std::filesystem::exists(file(plan)))
    save(plan, kind == OwnCorrection::kCodes ? find_codes(plan) : find_biases(plan));
  return {wanted(c_.corrections, plan), wanted(load_corrections(file(plan)), plan)};
}

Model OwnCorrections::corrected(const Plan& plan) {
  if (notes::own_corrections_of(id_of(plan)).is_in(c_.bench.study)) return as_found(plan);
  const Model shared = candidate(plan);
  if (!serves(plan)) return shared;
  OwnCorrection taken = OwnCorrection::kNone;
  std::optional<Model> best;
  try {
    double least = loss(shared);
    const auto try_out = [&](OwnCorrection kind, const SchemeCorrections& found) {
      Model other = candidate(plan, found);
      const double lost = loss(other);
      if (lost >= least) return;
      least = lost, taken = kind, best = std::move(other);
      save(plan, found);
    };
    try_out(OwnCorrection::kBiases, find_biases(plan));
    if (learns(plan, shared)) try_out(OwnCorrection::kCodes, find_codes(plan));
  } catch (const DeviceGone&) {
    throw;
  } catch (const Error& error) {
    // A candidate that cannot run says so when it is measured.
    if (error.code() == Code::kInterrupted) throw;
    c_.bench.env.log(LogLevel::kWarning,
                     fmt::format("codes and biases of plan {} stay as they are: {}", id_of(plan), error.what()));
  }
  notes::own_corrections_of(id_of(plan)).add(c_.bench.study, taken);
  return best ? std::move(*best) : shared;
}

}  // namespace seqto::internal
