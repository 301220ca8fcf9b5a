// Room: quantization/plan. Weights that several layers read, and what a plan may decide about them: one form for all.
#pragma once

#include <string>
#include <vector>

#include "model/graph_view.h"
#include "seqto/quantize.h"

namespace seqto::internal {

struct SharedWeight {
  std::string name;             // of the float constant
  std::vector<size_t> readers;  // nodes, in graph order; through nodes that read constants alone, as a Transpose, too
};
// Those that at least one of the readers takes as a weight.
std::vector<SharedWeight> shared_weights(const Model& model, const GraphView& index);

// The decision about a node of a plan: its scheme, and its fields where it has some.
struct Decision {
  Scheme scheme = Scheme::kFloat32;
  const LayerOptions* fields = nullptr;
};
// Schemes that change how a weight is stored and nothing else save bytes only if no second copy stays beside the first:
// all readers of one weight that have such a scheme, or none, get the finest of theirs (float32 before float16, 8
// before 4 bits; of equal ones that with fewer fields). Layers that compute on codes keep theirs. `decisions`: by node.
// Returns one sentence for each weight whose readers the plan decides differently.
std::vector<std::string> settle_shared_weights(const Model& model, const std::vector<SharedWeight>& shared,
                                               const QuantizeOptions& options, std::vector<Decision>& decisions);

}  // namespace seqto::internal
