// Room: quantization. What a report shows of single layers: their tensors, what values these take, what int8 holds.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "seqto/quantize.h"

namespace seqto {

// The tensors of one layer by name. Absent optional inputs and constants that are no weights are left out; what a
// subgraph of the layer reads is among its inputs.
struct LayerTensors {
  LayerId layer;
  std::vector<std::string> inputs, weights, outputs;
};
// Of every node, in graph order.
std::vector<LayerTensors> layer_tensors(const Model& model);

// What a quantized tensor can hold: all that lies between the ends, in steps of the scale.
struct QuantizedRange {
  DataType type = DataType::kInt8;
  double lowest = 0, highest = 0;  // of all channels
  double scale = 0;                // the largest of them
  int64_t channels = 1;            // with a scale of their own
};

// The values of one tensor of the float model.
struct TensorValues {
  float lowest = 0, highest = 0;
  Histogram histogram;                      // at most kMostBins bins, of equal width
  std::optional<QuantizedRange> quantized;  // absent: it has no rounding of its own in the quantized model
};
constexpr int kMostBins = 64;

// Of the weights, and of those activations that calibrate() observes, over the samples: one pass in constant memory
// over the model as the runtime optimises it. What that leaves no trace of is absent. `quantized` is in Q/DQ form
// (others have no ranges) and was made of `model`. Throws as calibrate().
std::map<std::string, TensorValues> tensor_values(const Model& model, const Model& quantized, const Dataset& data,
                                                  std::span<const int64_t> samples, Runner& runner, const Env& = {});

}  // namespace seqto
