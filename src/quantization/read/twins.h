// Room: quantization/read. Two graphs of the same weights, as a decoder with a cache and without: what was decided and
// found for the one, taken to the other.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "seqto/quantize.h"

namespace seqto::internal {

// Of the names in one graph those in the other. Weights are alike by their values; of several alike those of one name,
// then the first by the first.
struct Twins {
  std::unordered_map<std::string, std::string> weights;
  std::unordered_map<LayerId, LayerId> layers;  // that read such weights, by the same operator
  std::vector<LayerId> strangers;               // products in the first graph whose weights the other has not
};
// Both have names (name_nodes).
Twins twins(const Model& of, const Model& in);

// The plan for the graph `of`: layers with weights as their twins; those without as the others of their group, as far
// as they can be; where all of a group have none, as the layers of their names.
Plan carried_plan(const Plan& plan, const Twins& twins, const Model& of, const Model& in);

Corrections carried_corrections(const Corrections& found, const Twins& twins);

// `of`, rewritten as `before` became `after`: weights that center, equalize and smooth changed, and the Mul nodes of
// the last. Nothing where a layer of `after` reads something else that `before` does not have.
std::optional<Model> carried_rewriting(const Model& of, const Model& before, const Model& after, const Twins& twins);

}  // namespace seqto::internal
