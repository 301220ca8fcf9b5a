// Room: quantization/improve. The layers of a model whose weights are stored as codes (coded_weights.h), or read by a
// QLinear operator, and how their weights lie.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "quantization/improve/coded_weights.h"
#include "seqto/model.h"
#include "seqto/quantize.h"

namespace seqto::internal {

// A weight as a matrix for each group.
struct WeightLayout {
  int64_t groups = 1, outputs = 0, inputs = 0;  // outputs of all groups; inputs of one output
  bool inputs_first = false;                    // stored inputs x outputs
  size_t at(int64_t output, int64_t input) const {
    return static_cast<size_t>(inputs_first ? input * outputs + output : output * inputs + input);
  }
};

struct CodedLayer {
  const Node* node = nullptr;  // of the model
  LayerId name;                // of the layer, also where the operator that it became has another
  int depth = 0;               // coded layers before it on the longest path
  std::string input;           // produced by a node, or an input of the model
  CodedWeight weight;
  WeightLayout layout;            // of `weight`
  std::string bias;               // initializer, int32 or float; empty: none that is the layer's own
  std::vector<float> bias_scale;  // of an int32 bias
  bool is_operator = false;       // QLinearConv, QLinearMatMul or QGemm: its input is codes as well
};
// Conv of one or two dimensions, Gemm and MatMul in graph order, in these forms, also as MatMulNBits with the Add of a
// Gemm's bias, whose codes nothing else reads. The model must outlive the result.
std::vector<CodedLayer> coded_layers(const Model& model);

// How the weights of this node lie, nothing where its attributes are beyond what layers are learned for.
std::optional<WeightLayout> weight_layout(const Node& node, const std::vector<int64_t>& dims);

}  // namespace seqto::internal
