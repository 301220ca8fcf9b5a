// Room: quantization. How much each tensor suffers: onnxruntime's debugging figures and the published order.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "seqto/quantize.h"

namespace seqto {

// All figures in dB, 20 log10(|x| / |x - y|): larger is better. Equal tensors give a large finite value.
struct ActivationError {
  std::string tensor;
  double qdq_err = 0;     // the quantized model's tensor before and after its own Q/DQ
  double xmodel_err = 0;  // the float model's tensor and the quantized model's
  double score = 0;       // 0.5 * minmax(xmodel_err) + 0.5 * minmax(qdq_err), 0..1
};
struct WeightError {
  std::string tensor;
  double sqnr = 0;  // float weight and dequantized weight
};
struct Sensitivity {
  std::vector<ActivationError> activations;  // by score, descending (the published order)
  std::vector<WeightError> weights;          // by sqnr, descending
};

// Runs both models on the samples, unoptimised; constant memory (norms are summed in the runtime itself).
Sensitivity analyze(const Model& float_model, const Model& quantized, const Dataset& data,
                    std::span<const int64_t> samples, Runner& runner, const Env& = {});

// The published exclusion order: tensors of the activations, then of the weights, each followed by the nodes that
// read it; repeated entries are dropped.
std::vector<std::string> exclusion_order(const Sensitivity& sensitivity, const Model& float_model);

}  // namespace seqto
