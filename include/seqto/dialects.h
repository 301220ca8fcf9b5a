// Room: quantization. Plans in the words of other tools.
//
// What to leave in float, precisions of layers, encodings of tensors; docs/reference/dialects.md shows a file of each.
//
// onnxruntime  JSON as quantize_static() takes it: {"nodes_to_exclude": [name], "extra_options":
//              {"TensorQuantOverrides": {tensor: [{"quant_type", "scale", "zero_point", "axis"}]}}}. Read also: a bare
//              list of names, the overrides alone, the same keys inside "quantization" (Optimum) or "options".
// nncf         JSON of nncf.IgnoredScope: {"ignored_scope": {"names": [], "patterns": [], "types": [], "subgraphs":
//              [{"inputs": [], "outputs": []}], "validate": bool}}. Patterns are Python's, from the name's start; a
//              subgraph is all that lies on a path from an input to an output. Read also: the scope alone, and the
//              older list {"ignored_scopes": ["name", "{re}pattern"]}.
// tensorrt     trtexec's argument --layerPrecisions=NAME:PRECISION,... (fp32, fp16, bf16, int8 ...), read from left to
//              right, later entries win; "*" stands for all that are not named. The text may hold other arguments.
// aimet        JSON of AIMET's encodings. Written: 2.0.0, {"version": "2.0.0", "encodings": [{"name", "output_dtype",
//              "y_scale", "y_zero_point", "axis"}]}. Read also: 0.4 to 0.6.1 and 1.0.0, whose "activation_encodings"
//              and "param_encodings" count offsets from unsigned codes (offset = -zero point). A tensor without an
//              encoding is float.
// quark        JSON with AMD Quark's {"exclude": [...]}: names, patterns that begin with ^, and pairs [[start...],
//              [end...]] of subgraphs; "layer_type_config": [[null, [op type...]]] excludes too.
// seqto        our own, plan_to_json().
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "seqto/quantize.h"

namespace seqto {

enum class Dialect { kSeqto, kOnnxruntime, kNncf, kTensorrt, kAimet, kQuark };
std::string_view to_string(Dialect dialect);   // "seqto", "onnxruntime", "nncf" ...
Dialect parse_dialect(std::string_view name);  // throws Error{kUsage}
// From the text itself. Throws Error{kInvalidInput} where it is none of them.
Dialect detect_dialect(const std::string& text);

struct ForeignPlan {
  Plan plan;
  TensorOverrides encodings;       // types, scales and zero points by tensor, where the dialect has them
  std::vector<std::string> notes;  // what could not be said, one sentence each
};

// `model` is the float model, named and with shapes. What a tool does not exclude is int8 wherever the quantizer can
// write that. Throws Error{kInvalidInput}: no such form, or a name, pattern or type that matches nothing in the model.
ForeignPlan read_plan(const std::string& text, Dialect dialect, const Model& model);

struct PlanText {
  std::string text;
  std::vector<std::string> notes;  // what the dialect has no word for, one sentence each
};
// Layers whose scheme the dialect has no word for are left in float there. aimet needs encodings, which
// encodings_of() takes from a quantized model. Throws Error{kUsage} without them, Error{kInvalidInput} where a name
// cannot be written.
PlanText write_plan(const ForeignPlan& plan, Dialect dialect, const Model& model);

// Types, scales and zero points of a quantized model in QDQ form, by the tensors of the float model that it was made
// of. Biases in int32 are left out: they follow from the others.
TensorOverrides encodings_of(const Model& float_model, const Model& quantized);

}  // namespace seqto
