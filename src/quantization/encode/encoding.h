// Room: quantization/encode. Everything that was decided about one candidate, before a file is written. A value: it can
// be printed, compared and hashed; its hash names the candidate.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "quantization/arithmetic/arithmetic.h"
#include "seqto/quantize.h"

namespace seqto::internal {

// Whose scale and zero point a tensor has: its own, or those of another one; of that one's two forms which.
struct ParamsOwner {
  std::string tensor;
  bool converted = false;
};

// A float tensor that is held as codes between a Q and a DQ, or in the file.
struct EncodedTensor {
  std::string name;
  QuantParams params;
  ParamsOwner owner;
  // A second form, behind the first, that some of its readers get.
  std::optional<QuantParams> converted;
  std::unordered_set<LayerId> converted_readers;  // nodes
  DataType float_type = DataType::kFloat;         // of what the codes stand for
  std::optional<Tensor> codes;                    // of a constant
  // Of a constant that has to go through a Q: its values inside the reduced range, where they leave it.
  std::optional<Tensor> inside;

  const QuantParams& read_by(const LayerId& node) const {
    return converted && converted_readers.contains(node) ? *converted : params;
  }
};

// A bias as int32 in steps of its layer's input and weight, or in float where only a factor was folded in.
struct EncodedBias {
  std::string name;
  LayerId layer;
  std::vector<float> scale;
  Tensor values;
  DataType float_type = DataType::kFloat;
  bool is_float = false;
};

// A weight as a scheme that only stores it has it, or as an operator on codes reads it.
struct EncodedWeight {
  std::string name;
  std::string form;             // how codes and scales lie: "folded 8", "matmulnbits rows 32 4" ...
  std::vector<Tensor> tensors;  // codes, scales, zero points
};

// The graph of a candidate in QDQ form, with the edges that the decisions changed.
struct EncodedGraph {
  std::vector<Node> nodes;
  std::vector<bool> removed;                  // of those nodes: Relu and Clip that the codes make superfluous
  std::vector<Initializer> new_initializers;  // copies of biases that several layers read
  // Nodes that are quantized and read a tensor, once for each edge.
  std::unordered_map<std::string, std::vector<size_t>> receivers;
};

struct Encoding {
  std::map<LayerId, DetailedScheme> layers;  // those that are not float, as they are written
  std::optional<EncodedGraph> graph;         // where layers are static and in QDQ form
  std::vector<EncodedTensor> tensors;        // of static layers, in the order in which they are written
  std::vector<EncodedBias> biases;           // of those in QDQ form
  std::vector<EncodedWeight> weights;
  // Ids of docs/compatibility.md: all of them, and those that belong to a layer.
  std::vector<std::string> deviations;
  std::map<LayerId, std::vector<std::string>> layer_deviations;
  std::vector<std::string> notes;  // what was asked for and not done, and constants that were changed to fit

  // One with parameters of its own.
  EncodedTensor& add_tensor(const std::string& name, const QuantParams& params);
  void add_weight(const std::string& name, std::string form, std::vector<Tensor> tensors);
  void deviate(const char* id, const LayerId& layer = "");
};

// With hashes in place of codes.
nlohmann::json to_json(const Encoding& encoding);
nlohmann::json shape_to_json(const Tensor& tensor);  // type, dims, hash

}  // namespace seqto::internal
