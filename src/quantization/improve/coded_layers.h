// Room: quantization/improve. The layers of a quantized model whose weights are stored as codes (coded_weights.h), and
// how these lie.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "quantization/improve/encoded_layers.h"
#include "seqto/improve.h"

namespace seqto::internal {

// A weight as a matrix for each group.
struct WeightLayout {
  int64_t groups = 1, outputs = 0, inputs = 0;  // outputs of all groups; inputs of one output
  bool inputs_first = false;                    // stored inputs x outputs
  size_t at(int64_t output, int64_t input) const {
    return static_cast<size_t>(inputs_first ? input * outputs + output : output * inputs + input);
  }
};

// A layer of the float model with a constant float weight.
struct FloatLayer {
  const Node* node = nullptr;
  const Tensor* weight = nullptr;
  WeightLayout layout;  // of that weight
};

struct CodedLayer {
  const Node* node = nullptr;  // of the model
  int depth = 0;               // coded layers before it on the longest path
  std::string input;           // produced by a node, or an input of the model
  CodedWeight weight;
  WeightLayout layout;                 // of `weight`
  bool has_bias = false;               // of its own
  bool is_stored = false;              // the weight only: its scales can be others
  std::optional<FloatLayer> original;  // nothing where it has no such weight, or another shape
};
// Conv of one or two dimensions, Gemm and MatMul in graph order, in these forms, also as MatMulNBits, whose codes
// nothing else reads. `quantized`: as the encoding says it, operators on codes in pairs (operators_in_pairs.h). It must
// outlive the result.
std::vector<CodedLayer> coded_layers(const Model& quantized, EncodedLayers& layers);

// How the weights of this node lie, nothing where its attributes are beyond what layers are learned for.
std::optional<WeightLayout> weight_layout(const Node& node, const std::vector<int64_t>& dims);

// Of the float model, in graph order: those that are learned unasked, no wider than kWidestUnasked.
std::vector<FloatLayer> layers_to_learn(const Model& model);
// Rows of what goes in that learning looks at, of all samples together.
int64_t wanted_rows(const WeightLayout& layout, const RoundingOptions& options);

}  // namespace seqto::internal
