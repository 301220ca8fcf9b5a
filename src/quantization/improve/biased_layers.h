// Room: quantization/improve. The layers of a quantized model whose biases can take a shift.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/graph_view.h"

namespace seqto::internal {

struct BiasedLayer {
  size_t node = 0;               // of the quantized model
  const Node* input = nullptr;   // the DequantizeLinear before the data; absent: float activations
  const Node* weight = nullptr;  // the DequantizeLinear after the weight; absent: stored in another way
  const Node* bias = nullptr;    // the DequantizeLinear after the bias; absent: a float bias or none
};

// Conv, ConvTranspose and Gemm with stored weights, in graph order. The model must outlive it.
class BiasedLayers {
 public:
  explicit BiasedLayers(const Model& model);
  const std::vector<BiasedLayer>& all() const { return layers_; }
  const Edges& edges() const { return index_.edges; }
  const Tensor* constant(const std::string& name) const;

 private:
  const Node* dequantizer(const Node& node, size_t input) const;
  std::optional<BiasedLayer> biased(const Node& node, size_t i) const;
  bool shiftable(const Node& node, const BiasedLayer& layer) const;

  GraphView index_;
  std::vector<BiasedLayer> layers_;
};

}  // namespace seqto::internal
