// Room: metrics. Does a quantized model give on other processors what it gives here? docs/audit.md.
//
// x86 without VNNI multiplies unsigned activations and signed weights with vpmaddubsw, which adds two neighbouring
// products in 16 bits and saturates. VNNI, AMX and ARM's dot products add in 32 bits, exactly. Both are emulated.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "seqto/dataset.h"
#include "seqto/env.h"
#include "seqto/metrics.h"
#include "seqto/runner.h"

namespace seqto {

// A Conv, Gemm or MatMul that the runtime computes in int8.
struct AuditedLayer {
  LayerId name;
  std::string op_type;
  // The largest sum of two neighbouring products that any input could give; above 32767 it can saturate.
  int64_t largest_sum = 0;
  bool can_saturate() const { return largest_sum > 32767; }
  // On the samples, in the saturating model: sums of pairs, those that were cut off; outputs, those with such a sum in
  // them. 0 where the layer cannot saturate.
  int64_t pairs = 0, saturated_pairs = 0;
  int64_t outputs = 0, saturated_outputs = 0;
  // Where it can: share of the runtime's own outputs that the exact emulation gives as well, from the same inputs.
  double equal_to_runtime = 1;
  // Why the kernel is exact everywhere, where it is for another reason than its weights: "depthwise", "weights uint8".
  std::string exact_because;
};

struct Audit {
  std::string model, reference;  // paths; an empty reference: the runtime's outputs of the model itself
  std::string runner, machine;
  int64_t samples = 0;
  bool random_inputs = false;
  // Losses against the reference, with intervals; task metrics where there are labels. `runtime`: as it ran here.
  Measurement runtime, exact, saturating;
  std::string loss = "kl";           // that the outputs call for (default_loss)
  std::vector<AuditedLayer> layers;  // in graph order
  // The model's own schemes, or the plan that was given, with reduce_range for those layers that saturated enough.
  Plan proposal;
  std::vector<LayerId> proposed;  // these layers
};

struct AuditOptions {
  std::optional<Plan> plan;  // that the model was made by; absent: as it is read off the model
  // Share of a layer's outputs from which reduce_range is proposed for it: 7 bits have a loss of their own, which a few
  // saturated outputs may not be worth. 0: one is enough.
  double min_saturated = 0;
};

// What a float model answers to the samples: all of its float outputs. Throws Error{kInvalidInput} where the first is
// none.
Outputs reference_outputs(Session& session, const Dataset& data, std::span<const int64_t> samples, const Env& env = {});

// `model` is in QDQ form. `reference`: reference_outputs() on the same samples; empty: none.
// Every sample is run once for each layer in a row that can saturate, and multiplied twice by plain code: seconds a
// sample for a big model. A model without int8 layers is the same everywhere. Throws Error{kInvalidInput} where the
// first output is not float.
Audit audit(const Model& model, const Dataset& data, std::span<const int64_t> samples, Runner& runner,
            const Outputs& reference = {}, const AuditOptions& options = {}, const Env& env = {});

}  // namespace seqto
