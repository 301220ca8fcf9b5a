// Room: quantization/encode. Operators that read and write quantized tensors themselves, decided node by node: what
// QOperator form and dynamic quantization share. A tensor goes back to float only where something float reads it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "quantization/arithmetic/weight_cache.h"
#include "quantization/calibration/clip_bounds.h"
#include "quantization/encode/activation_params.h"
#include "quantization/encode/encoding.h"
#include "quantization/plan/layer_fields.h"

namespace seqto::internal {

// The names of a tensor's codes and of their parameters.
struct QuantizedTensor : TensorNames {
  QuantParams params;  // no scale in it: known at run time only
};

// What does not change between a graph and the bodies inside it.
struct OperatorContext {
  const LayerwiseOptions& options;
  const RangeView* ranges;  // null: activations are quantized at run time
  WeightCache& cache;
  // A body is written as soon as it is decided, since the node around it reads what the body reads.
  Graph (*write_body)(Graph body, const Encoding& encoding);

  bool is_static() const { return ranges != nullptr; }
  DataType activation_type() const { return is_static() ? options.common().activation_type : DataType::kUint8; }
};

class OperatorEncoder {
 public:
  // Encodes the node, or leaves everything as it was and returns false.
  using Rule = std::function<bool(OperatorEncoder&, const Node&)>;

  // `parent` encodes the graph around a body; `model` is then the body in a model of its own.
  OperatorEncoder(const Model& model, const GraphView& index, const OperatorContext& context,
                  OperatorEncoder* parent = nullptr);

  // The whole graph, node by node in sorted order; what `rule` refuses stays float.
  Encoding run(const Rule& rule);

  // --- what a rule asks
  const QuantizeOptions& options() const { return *options_; }  // of the layer that is being encoded
  const GraphView& index() const { return index_; }
  bool is_static() const { return context_.is_static(); }
  bool is_float(const std::string& tensor) const;  // known to be float32
  const Tensor* initializer(const std::string& tensor) const;
  // Reports a float16 operand: the quantized operators have float32 scales alone.
  void note_half(const std::string& tensor);
  // The quantized form, where there is one already.
  const QuantizedTensor* find(const std::string& tensor) const;
  const QuantizedTensor* find_here(const std::string& tensor) const;  // not in the graph around this one
  // True when activation() has what it needs: a range, an initializer, or run time.
  bool quantizable(const std::string& tensor) const;

  // How a constant is quantized in this type, as a weight or as an activation.
  WeightRule rule_of(DataType type, std::optional<int64_t> axis, bool as_weight) const;

  // --- what a rule reads
  const QuantizedTensor& activation(const std::string& tensor);
  // At run time, with a scale for each row along the last axis: [..., 1], zero point 128.
  const QuantizedTensor& rows(const std::string& tensor);
  std::string row_one();  // the scalar 1, as it is called in this graph
  // Of a constant in this type, per channel where an axis is given; of anything else as activation().
  QuantizedTensor& weight(const std::string& tensor, DataType type, std::optional<int64_t> axis);
  // Of a constant, for a convolution: int8 by channel whatever was asked for, and symmetric, as releases up to 1.24
  // take one zero point for all channels.
  QuantizedTensor& filter(const std::string& tensor);
  // A constant that lies in the file as [..., columns, rows]: codes with the last two dimensions exchanged, the rule's
  // axis that of the original, parameters of shape `param_dims`, codes of shape `dims` before the exchange.
  const QuantizedTensor& transposed_weight(const std::string& tensor, const Tensor& value, const WeightRule& rule,
                                           std::vector<int64_t> dims, std::vector<int64_t> param_dims);
  // The weight with scales that keep this bias inside int32: enlarged in place, or in a copy where another bias relies
  // on the present ones.
  QuantizedTensor& fit_to_bias(const std::string& tensor, QuantizedTensor& weight, const std::string& bias_name,
                               const Tensor& bias, const QuantizedTensor& input);
  // int32 codes of a constant under the product of two scales; returns their name.
  std::string bias(const std::string& tensor, const Tensor& value, const QuantizedTensor& input,
                   const QuantizedTensor& weight);
  // Parameters for a tensor that is about to be written; nothing where its range is missing.
  std::optional<QuantizedTensor> output(const std::string& tensor);
  // The same with given numbers.
  QuantizedTensor output(const std::string& tensor, float scale, int32_t zero_point);

  // --- what a rule decides
  void emit(Node node);
  void emit_float(const Node& node);             // its inputs dequantized where they have to be
  void ensure_float(const std::string& tensor);  // a constant that is quantized elsewhere comes from its codes
  void read_float(const std::string& tensor);    // a constant is read as it is
  bool needs_dequantizing(const std::string& tensor) const;
  void define(const std::string& tensor, QuantizedTensor quantized);
  std::string add_initializer(const std::string& name, Tensor tensor);  // returns the name that was free
  // The product of two scales, written once for nodes without a name.
  std::string scale_product(const std::string& a, const std::string& b, const std::string& node_name);
  std::string fresh(const std::string& name);
  void deviate(const std::string& id) { result_.deviate(id, layer_); }

 private:
  struct Constant {  // codes are made when the graph is complete: a bias may still change the scale
    const QuantizedTensor* quantized;
    std::string source;
    Tensor value;
    std::vector<int64_t> param_dims;
    std::vector<int64_t> transposed_dims;  // not empty: exchange the last two
  };

  bool is_local(const std::string& tensor) const;
  QuantizedTensor& constant(const std::string& tensor, const Tensor& value, const WeightRule& rule, bool as_weight);
  bool fuses_channels_of_the_left(const Node& node) const;
  QuantizedTensor names_for(const std::string& tensor, QuantParams params);
  const QuantizedTensor& quantize_here(const std::string& tensor);
  std::string row_constant(const std::string& name, Tensor value);
  void encode_bodies(Node& node, const Rule& rule);
  void encode_constants();

  const Model& model_;
  const GraphView& index_;
  OperatorContext context_;
  OperatorEncoder* parent_;
  std::string scope_;  // in front of the names of a body's constants where they are cached
  LayerId layer_;      // being encoded
  const QuantizeOptions* options_;
  int bodies_ = 0;
  std::unordered_map<std::string, QuantizedTensor> values_;
  std::unordered_set<std::string> available_;  // in float: graph inputs and what nodes have written
  std::unordered_set<std::string> taken_;
  std::unordered_set<std::string> biased_;  // weights whose scale some bias relies on, by the name of their codes
  std::unordered_map<std::string, std::string> scale_products_;
  std::unordered_map<std::string, std::string> row_constants_;  // by name, as they are called in the file
  std::vector<Constant> constants_;
  EncodedGraph graph_;
  Encoding result_;
};

// True when the options' list, or else the scheme's own, has the op type of this node.
bool lists_op_type(const QuantizeOptions& options, Scheme scheme, const Node& n);

// Real bounds of the values that the codes stand for; nothing where the parameters are not known.
std::optional<RealBounds> bounds_of(const QuantizedTensor& tensor);

// A node of the quantized operator set of com.microsoft, named after the one it replaces.
Node quantized_node(const Node& from, const std::string& op_type, std::vector<std::string> inputs,
                    std::vector<std::string> outputs, const std::string& domain = "com.microsoft");

}  // namespace seqto::internal
