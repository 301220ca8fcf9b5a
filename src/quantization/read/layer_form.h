// Room: quantization/read. How the layers of a graph are stored and computed, whoever quantized it.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "model/graph_view.h"
#include "seqto/quantize.h"

namespace seqto::internal {

// What a layer reads at one of its inputs.
struct InputForm {
  enum class Kind {
    kOther,           // absent, or no float tensor
    kUnknown,         // its type is not known
    kActivation,      // float, computed at run time
    kConstant,        // float, in the file
    kHalfActivation,  // float16
    kHalfConstant,    // stored in float16
    kQuantized,       // through DequantizeLinear, or integers with a scale
    kQuantizedWeight  // constant, dequantized by DequantizeLinear, or Cast and Mul
  };
  Kind kind = Kind::kOther;
  DataType type = DataType::kUndefined;  // of the stored elements, where quantized
  bool per_channel = false, dequantize_linear = false;
};

struct LayerForm {
  Scheme scheme = Scheme::kFloat32;
  std::string how;  // types and granularity; empty for float32
};

class LayerForms {
 public:
  // `types`: of tensors that `model` itself says nothing about.
  explicit LayerForms(const Model& model, const std::unordered_map<std::string, DataType>* types = nullptr);

  LayerForm of(const Node& node) const;
  // Quantization's own nodes: they carry a layer, they are none.
  bool is_plumbing(const Node& node) const;
  InputForm input(const std::string& tensor) const;
  // Why a node that is not known to read or write floats is none for the quantizer; "" for one that does.
  std::string why_no_floats(const Node& node) const;
  // The node that does what `node` of the float model did; nothing where it was taken out.
  const Node* counterpart(const Node& node) const;

  const GraphView& index() const { return index_; }
  const Node* producer(const std::string& tensor) const { return index_.edges.producer(tensor); }

 private:
  void find_codes(const Node& node);
  DataType zero_point_type(const Node& node, size_t input) const;
  const Tensor* stored(const std::string& tensor, int depth = 0) const;
  bool is_packed(const std::string& tensor, int depth = 0) const;
  bool computes_on_codes(const Node& node) const;
  bool output_is_quantized(const Node& node) const;
  void find_plumbing(const Node& node);
  // What makes floats of an integer product: Cast, Mul by both scales, and of a convolution the bias.
  void find_plumbing_behind(const Node& product);

  GraphView index_;
  const std::unordered_map<std::string, DataType>* types_;
  std::unordered_map<std::string, const Node*> names_;
  std::unordered_map<std::string, DataType> codes_;  // integer tensors that stand for float ones
  std::unordered_set<const Node*> plumbing_;
};

}  // namespace seqto::internal
