// Room: quantization. Why is this layer float? The scheme of every layer, read off the graph, with a reason.
//
// Schemes are found in the model itself (DequantizeLinear at the inputs, integer operators, stored weights), whoever
// wrote it, so a report says what is in the file and not what was asked for.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "seqto/quantize.h"

namespace seqto {

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
  std::map<LayerId, std::vector<std::string>> deviations;  // ids of docs/compatibility.md by layer
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

}  // namespace seqto
