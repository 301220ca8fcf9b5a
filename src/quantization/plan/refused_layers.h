// Room: quantization/plan. Layers that a device takes in float and refuses on codes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "seqto/target.h"

namespace seqto::internal {

struct RefusedLayers {
  std::vector<LayerId> layers;  // with these in float as well, the device takes the model
  Model model;                  // without these
  std::string said;             // a sentence about them, with the device's words; empty: it takes it as it is
  bool taken = true;            // false: it refuses the model all the same, or in float too
};
// `without`: the quantized model, these layers left out; `floats` are left out anyway. Each layer is found by halves:
// where the device takes a model with the first layers on codes, and refuses it with one more, that one is to blame.
RefusedLayers find_refused(const Model& model, const std::function<Model(const std::vector<LayerId>&)>& without,
                           const Refusal& refusal, std::vector<LayerId> floats);

}  // namespace seqto::internal
