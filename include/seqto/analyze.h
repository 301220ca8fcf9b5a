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
  double qdq_err = 0;     // the quantized model's tensor before and after its own Q/DQ; NaN where it has none
  double xmodel_err = 0;  // the float model's tensor and the quantized model's
  double score = 0;       // 0.5 * minmax(xmodel_err) + 0.5 * minmax(qdq_err), 0..1; without qdq_err the first alone
  std::vector<double> channels;  // xmodel_err by index of axis 1, on demand
};
struct WeightError {
  std::string tensor;
  double sqnr = 0;               // float weight and dequantized weight
  std::vector<double> channels;  // by output channel, on demand
};
struct Sensitivity {
  std::vector<ActivationError> activations;  // by score, descending (the published order)
  std::vector<WeightError> weights;          // by sqnr, descending
};

struct AnalyzeOptions {
  bool per_channel_detail = false;  // fills `channels`
};
// Runs both models on the samples, unoptimised; constant memory (norms are summed in the runtime itself).
// `quantized` may come from any tool and be in any form: Q/DQ, integer operators (tensors are compared after
// dequantizing them), dynamic, stored weights, float16. Tensors are matched by name, else by the name of their node.
Sensitivity analyze(const Model& float_model, const Model& quantized, const Dataset& data,
                    std::span<const int64_t> samples, Runner& runner, const Env& = {}, const AnalyzeOptions& = {});

// The published exclusion order: tensors of the activations, then of the weights, each followed by the nodes that
// read it; repeated entries are dropped.
std::vector<std::string> exclusion_order(const Sensitivity& sensitivity, const Model& float_model);

}  // namespace seqto
