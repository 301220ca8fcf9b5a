// Room: model. A decoder whose two forms are branches of one If: with a cache and without, as merged by optimum.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "seqto/model.h"

namespace seqto::internal {

// A model that is one If, whose condition is an input. Each branch as a model of its own: the tensors that it reads
// from outside are its inputs and initializers.
struct Branches {
  std::string condition;  // the input
  Model then_branch, else_branch;
};

// Nothing where the model is something else, or its branches call the outputs otherwise than it does.
std::optional<Branches> branches_of(const Model& model);

// Whether it is a decoder with a cache in.
bool reads_a_past(const Model& model);

// The model with these branches in place of its own. A weight that both hold is stored once, beside the If.
Model with_branches(const Model& model, Branches branches);

}  // namespace seqto::internal
