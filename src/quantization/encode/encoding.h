// Room: quantization/encode. Everything that was decided about one candidate, before a file is written. A value: it can
// be printed, compared and hashed. Candidates are named by their plans (docs/design/decisions/0013-ids.md).
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "model/type_variables.h"
#include "quantization/arithmetic/store_weight.h"
#include "seqto/quantize.h"

namespace seqto::internal {

// Whose scale and zero point a tensor has: its own, or those of another one; of that one's two forms which.
struct ParamsOwner {
  std::string tensor;
  bool converted = false;
};

// What a tensor's codes and their parameters are called in a file of operators on codes.
struct TensorNames {
  std::string codes, scale, zero_point;
};

// A float tensor that is held as codes between a Q and a DQ, or in the file.
struct EncodedTensor {
  std::string name;
  QuantParams params;
  ParamsOwner owner;
  // A second form, behind the first, that some of its readers get.
  std::optional<QuantParams> converted;
  std::unordered_set<LayerId> converted_readers;  // nodes
  bool spares_float_readers = false;              // who computes in float, and the model's user, reads it as it was
  DataType float_type = DataType::kFloat;         // of what the codes stand for
  std::optional<Tensor> codes;                    // of a constant
  // Of a constant that has to go through a Q: its values inside the reduced range, where they leave it.
  std::optional<Tensor> inside;
  TensorNames names;                // of operators on codes
  std::vector<int64_t> param_dims;  // the shape of their parameters

  const QuantParams& read_by(const LayerId& node) const {
    return converted && converted_readers.contains(node) ? *converted : params;
  }
};

// A bias as int32 in steps of its layer's input and weight, or in float where it has other values than in the model.
struct EncodedBias {
  std::string name;
  LayerId layer;
  std::vector<float> scale;
  Tensor values;
  DataType float_type = DataType::kFloat;
  bool is_float = false;
  bool is_added = false;  // its layer had none
  TensorNames names;      // of operators on codes
};

// How a weight that is only stored lies in the file: turned back to float when the runtime loads the model (kFolded,
// kFloat16), behind a DequantizeLinear, or as the operator reads it that computes on its codes.
enum class StoredForm { kFolded, kFloat16, kDequantize, kGather, kMatMulNBits };

// A weight as a scheme that only stores it has it.
struct EncodedWeight {
  // An input of a node that reads it.
  struct Reader {
    LayerId layer;
    size_t node = 0, input = 0;  // places
    bool transposed = false;     // through a Transpose
    int accuracy_level = 0;      // of MatMulNBits
  };

  std::string name;
  StoredForm form = StoredForm::kFolded;
  StoredWeight stored;  // kFloat16: the values are the codes
  // Of forms with blocks: elements that share a scale, and the weight's axis along which they lie.
  int64_t block_size = 0, axis = 0;
  std::vector<Reader> readers;
};

// The graph of a candidate in QDQ form, or of operators on codes, with the edges that the decisions changed.
struct EncodedGraph {
  std::vector<Node> nodes;
  std::vector<bool> removed;                  // of those nodes: Relu and Clip that the codes make superfluous
  std::vector<Initializer> new_initializers;  // beside codes: copies of biases that several layers read, shapes
  // Nodes that are quantized and read a tensor, once for each edge.
  std::unordered_map<std::string, std::vector<size_t>> receivers;
  std::vector<std::string> order;  // of new initializers, codes and parameters, among operators on codes
};

// A Clip in front of the node at this place.
struct EncodedClip {
  size_t node = 0;
  float lowest = 0, highest = 0;
};

// Nodes that compute in float16, by their places, and what of them: nothing of one that computes in float.
struct EncodedHalves {
  std::vector<std::vector<TypeVariable>> variables;
  std::unordered_set<std::string> read_as_float;   // by others, by bodies, by the graph's caller
  std::unordered_set<std::string> inputs_outputs;  // of the graph, that become float16

  std::set<size_t> inputs(size_t node) const;  // that it reads as float16
};
// Takes either type and gives no float: it reads what there is.
bool takes_either_type(const Node& node);

// Ids of docs/reference/compatibility.md: all of them, and those that belong to a layer.
struct Deviations {
  std::vector<std::string> deviations;
  std::map<LayerId, std::vector<std::string>> layer_deviations;

  void deviate(const std::string& id, const LayerId& layer = "");
};

struct Encoding : Deviations {
  std::map<LayerId, DetailedScheme> layers;  // those that are not float, as they are written
  std::optional<EncodedGraph> graph;         // where layers are static or dynamic
  std::vector<EncodedTensor> tensors;        // in the order in which they are written
  std::vector<EncodedBias> biases;
  std::vector<EncodedClip> clips;       // of the model with its static layers
  std::optional<EncodedHalves> halves;  // where layers compute in float16
  std::vector<EncodedWeight> weights;   // in the order in which they are read
  std::vector<LayerId> sums;            // Adds that are written as Sum
  std::vector<std::string> notes;       // what was asked for and not done, and constants that were changed to fit

  // One with parameters of its own.
  EncodedTensor& add_tensor(const std::string& name, const QuantParams& params);
  // What a later step decided about other layers; not its graph, clips and halves, whose places are of its model.
  void add(Encoding step);
};

// With hashes in place of codes, and its own: of all the rest.
nlohmann::json to_json(const Encoding& encoding);
nlohmann::json shape_to_json(const Tensor& tensor);  // type, dims, hash

}  // namespace seqto::internal
