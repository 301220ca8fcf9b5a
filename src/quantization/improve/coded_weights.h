// Room: quantization/improve. A constant weight as codes, in every form that the writers have: behind DequantizeLinear,
// also with blocks; in the form that the runtime folds (folded_weights.h), of 8 and of 4 bits; as MatMulNBits reads it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/graph_view.h"

namespace seqto::internal {

// real = (code - zero_point) * scale
struct CodedWeight {
  std::string codes;                // initializer
  std::vector<int64_t> dims;        // of the weight; of MatMulNBits outputs x inputs
  std::vector<float> scale;         // one, or one for each part of the weight
  std::vector<int32_t> zero_point;  // one, or as many as scales
  int32_t lowest = 0, highest = 0;  // codes

  // How the codes lie in the initializer.
  enum class Packing {
    kWhole,   // an element each, 4-bit types too
    kHalves,  // of 4 bits: the second half of them in the high bits of the first half's bytes
    kRows,    // of 2, 4 or 8 bits, low bits first
  };
  Packing packing = Packing::kWhole;
  int bits = 8;

  // The scales' shape broadcasts against the codes', whose index is divided by `block` on axis `block_axis` before.
  std::vector<int64_t> code_dims, scale_dims;
  size_t block_axis = 0;
  int64_t block = 1;
  // Where blocks are padded: the codes' shape before axis 1 was cut to the length that it has in the weight.
  std::vector<int64_t> padded_dims;
  int64_t kept = 0;

  // Index of an element's code, and of a code's scale.
  size_t code_at(size_t element) const;
  size_t scale_at(size_t code) const;
  std::vector<int32_t> unpacked(const Tensor& stored) const;
  Tensor packed(const Tensor& like, const std::vector<int32_t>& values) const;
};

// Finds them in a model, which must outlive it. Initializers of codes that anything else reads are none.
class CodedWeights {
 public:
  explicit CodedWeights(const Model& model) : view_(model) {}

  // The weight that a layer reads as this tensor.
  std::optional<CodedWeight> behind(const std::string& tensor) const;
  std::optional<CodedWeight> of_nbits(const Node& node) const;

  const GraphView& view() const { return view_; }
  const Tensor* initializer(const std::string& name) const;
  bool own_initializer(const std::string& name) const;  // that is read once
  // What produces a tensor that is read once, where it is of this kind.
  const Node* own_producer(const std::string& name, bool (*is_kind)(const Node&)) const;
  // The DequantizeLinear of an initializer, both read once.
  const Node* own_dequantizer(const std::string& name) const;
  bool read_once(const std::string& name) const { return view_.edges.uses(name) == 1; }

 private:
  std::optional<CodedWeight> dequantized(const Node& node) const;
  std::optional<CodedWeight> folded(const std::string& tensor) const;
  bool read_halves(const std::string& codes, CodedWeight& weight) const;
  std::optional<std::vector<int64_t>> reshaped_to(const Node* node) const;

  GraphView view_;
};

}  // namespace seqto::internal
