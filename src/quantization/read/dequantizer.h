// Room: quantization/read. The walk from a quantized graph to its float twin, node by node.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "model/graph_view.h"
#include "quantization/arithmetic/stored_weights.h"
#include "seqto/prepare.h"

namespace seqto::internal {

// A tensor of integers with the initializers that say what they mean.
struct Coded {
  std::string codes, scale, zero_point;  // zero_point may be empty
};

class Dequantizer {
 public:
  explicit Dequantizer(const Model& model);
  Dequantized run();
  // Integer tensor -> the float tensor that it stands for; complete after run().
  const std::unordered_map<std::string, std::string>& float_names() const { return float_of_; }
  const std::unordered_map<std::string, Coded>& codings() const { return coded_; }
  // Float tensor of the quantized model -> its name in the twin, where that is another one.
  std::string resolved(std::string name) const;

 private:
  using Rule = void (Dequantizer::*)(const Node&);
  static const std::unordered_map<std::string_view, Rule>& rules();

  // What integer tensors mean, from every node that says so.
  void collect_codings();

  // One rule for a kind of operator.
  void quantize_linear(const Node& n);
  void dequantize_linear(const Node& n);
  void dynamic_quantize_linear(const Node& n);
  void qlinear_conv(const Node& n);
  void qlinear_matmul(const Node& n);
  void qgemm(const Node& n);
  void qlinear_binary(const Node& n);
  void qlinear_unary(const Node& n);
  void qlinear_concat(const Node& n);
  void qlinear_where(const Node& n);
  void integer_product(const Node& n);
  void scaled_product(const Node& n);
  void row_product(const Node& n, const Coded& weight, const Node& rows);
  void dynamic_lstm(const Node& n);
  void qattention(const Node& n);
  void qembedding(const Node& n);
  void matmul_nbits(const Node& n);
  void gather_blocks(const Node& n);
  bool unfold(const Node& n);  // a node on the way from a stored weight to its layer
  void other(const Node& n);

  // The float tensor behind an operand.
  std::string operand(const Node& n, size_t codes, size_t scale, size_t zero_point, int64_t axis = 0);
  std::string operand(const Coded& coded, int64_t axis, int64_t block);
  std::string bias(const Node& n, size_t input, const std::string& input_scale, const std::string& weight_scale,
                   float factor = 1);
  std::string constant(const std::string& wish, const std::string& otherwise, Tensor tensor);

  void emit(const Node& like, std::string op_type, std::vector<std::string> inputs, const Coded& output,
            std::string domain = "");
  // The same node under its float name, with these inputs.
  void add_float_twin(const Node& n, std::string op_type, std::string domain, std::vector<std::string> inputs);
  void add_node(Node node);
  std::string float_name(const std::string& codes);
  // Adds what the quantized tensor cuts off below 0, unless it cannot be below; returns the tensor after it.
  std::string clamp(const std::string& tensor, const Coded& coded);
  bool never_negative(const std::string& tensor);
  bool cuts_off_negative(const Node& clip) const;
  DataType type_of(const Coded& coded) const;  // of the codes
  void note_range(const std::string& tensor, const Coded& coded);
  void finish_outputs();
  void rename(const std::string& from, const std::string& to);

  const Tensor* tensor(const std::string& name) const;
  std::string fresh(const std::string& wish) const;

  const Model& model_;
  GraphView view_;  // of it
  Dequantized result_;
  std::vector<Node> nodes_;
  std::vector<Initializer> added_;
  std::unordered_map<std::string, Tensor> unfolded_;
  std::unordered_map<std::string, Coded> coded_;
  std::unordered_map<std::string, std::string> float_of_, alias_;
  std::unordered_map<std::string, size_t> made_by_;       // tensor -> index in nodes_
  std::unordered_map<std::string, std::string> weights_;  // codes -> float initializer
  std::unordered_set<std::string> taken_, not_negative_;
  std::unordered_set<std::string> dropped_;  // made already, then found to be part of an integer product
  std::unordered_set<const Node*> done_;
  int64_t pairs_ = 0, operators_ = 0, activations_ = 0;
};

}  // namespace seqto::internal
