// Room: quantization. What was done to each layer and what it cost: schemes and reasons, errors, values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "seqto/plan.h"
#include "seqto/quantize.h"

namespace seqto {

// --- Why is this layer float? The scheme of every layer, read off the graph, with a reason
//
// Schemes are found in the model itself (DequantizeLinear at the inputs, integer operators, stored weights), whoever
// wrote it. So a report says what is in the file and not what was asked for.

struct LayerReport {
  LayerId name;
  std::string op_type;
  std::string scheme;  // name of a Scheme
  std::string reason;  // why it is float; or how it is quantized
};

// What was asked for; it gives reasons, never schemes.
struct ExplainOptions {
  QuantizeOptions quantize;
  std::optional<Plan> plan;                                // unset: every layer that `quantize` admits, static
  std::map<LayerId, std::vector<std::string>> deviations;  // ids of docs/reference/compatibility.md by layer
};

// What quantizing made of every node of `before`: each exactly once, in graph order. `before` has names and shapes.
std::vector<LayerReport> explain(const Model& before, const Model& after, const ExplainOptions& = {});

// The layers of one model as they are, and why those in float are not quantized. Nodes that are quantization itself
// (QuantizeLinear, the Cast behind an integer product ...) are no layers and left out.
std::vector<LayerReport> explain(const Model& model);

// What quantization a model already holds.
struct QuantizedForm {
  std::string form;  // "float", "qdq", "qoperator", "dynamic", "weights", "float16", or several joined by "+"
  int64_t quantize_nodes = 0, dequantize_nodes = 0;
  int64_t operators = 0;                  // QLinearConv, MatMulInteger, MatMulNBits ...
  std::map<std::string, int64_t> layers;  // by scheme
};
QuantizedForm quantized_form(const Model& model);

// --- How much each tensor suffers: onnxruntime's debugging figures and the published order

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
  double sqnr = 0;               // float weight and dequantized weight; NaN where both are nothing but zeros
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
Sensitivity analyze(const Model& float_model, const Model& quantized, const SampleRun& on, const AnalyzeOptions& = {});

// The published exclusion order: tensors of the activations, then of the weights, each followed by the nodes that
// read it; repeated entries are dropped.
std::vector<std::string> exclusion_order(const Sensitivity& sensitivity, const Model& float_model);

// --- What weights lose by themselves: the scores by which other tools give bits to layers, without running a candidate

struct LocalError {
  LayerId layer;  // that reads the weight; of several the first product
  // Of a product's input: its mean square; the variance and the largest magnitude of a channel over the positions of a
  // sample, both means over channels and samples. 0 for others.
  double square = 0, variance = 0, magnitude = 0;
  // Of the weight in 8 bits with scale and zero point for each output: the mean square error of the worst output, and
  // the root of the sum of all squares.
  double worst_output = 0, norm = 0;
  // In each of the quantized models: squared errors over squared weights of an output, both weighted by the mean
  // squares of the inputs that they are multiplied with, summed over the outputs. 0 where it is float.
  std::vector<double> relative;
};
// Of each constant weight of Conv, Gemm, MatMul and Gather, in graph order. One pass over the samples.
std::vector<LocalError> local_errors(const Model& model, std::span<const Model> quantized, const SampleRun& on);

// --- What a report shows of single layers: their tensors, what values these take, what int8 holds

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
std::map<std::string, TensorValues> tensor_values(const Model& model, const Model& quantized, const SampleRun& on);

}  // namespace seqto
