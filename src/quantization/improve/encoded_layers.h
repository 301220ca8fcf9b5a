// Room: quantization/improve. The layers of an encoding: where the codes and the bias of each are, to be read and
// replaced.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/graph_view.h"
#include "quantization/improve/coded_weights.h"

namespace seqto::internal {

class EncodedLayers {
 public:
  // `model`: the float one, which `view` is of. All of it outlives this.
  EncodedLayers(Encoding& encoding, const Model& model, const GraphView& view);

  // As the encoding has them: layers among operators on codes are those operators.
  const std::vector<Node>& nodes() const { return encoding_.graph ? encoding_.graph->nodes : model_.graph.nodes; }

  // Of a weight that is constant and read by this layer alone.
  struct Codes {
    Tensor* stored;  // in the encoding
    CodedWeight weight;
    StoredWeight* whole = nullptr;  // of one that is only stored: its scales can be others
  };
  std::optional<Codes> codes_of(const Node& node);
  const Model& model() const { return model_; }
  const GraphView& floats() const { return view_; }
  // Whether a layer with such a weight, whoever else reads it, can take another bias: one that computes in float32.
  bool takes_bias(const Node& node) const;

  // A constant: int32 in these steps, or float where there are none.
  struct Bias {
    std::string name;
    Tensor values;
    std::vector<float> scale;
    bool is_own = false;  // read by this layer alone
    // A value for each of so many channels that a learned bias can take the place of.
    bool holds(int64_t channels) const;
    double step(size_t channel) const { return scale[scale.size() == 1 ? 0 : channel]; }
  };
  std::optional<Bias> bias_of(const Node& node) const;
  // Also of one that is computed.
  bool has_bias(const Node& node) const;
  // Other values; the layer gets a bias of its own where others read the present one.
  void replace(const Node& node, const Bias& bias, Tensor values);
  // For a layer without one, in steps of its input and weight, or in float where its input is.
  void add_bias(const Node& node, const std::vector<float>& values);
  // Not for operators on codes, which take no floats.
  void add_float_bias(const Node& node, const std::vector<float>& values);

 private:
  size_t bias_input_of(const Node& node) const;  // 0: it can have none
  const EncodedTensor* tensor(const std::string& name) const;
  const EncodedWeight* weight_of(const Node& node) const;
  size_t uses(const std::string& name) const { return (edges_ ? *edges_ : view_.edges).uses(name); }
  // A bias that no other layer reads: float, or int32 in these steps.
  void give(const Node& node, Tensor values, std::vector<float> scale, bool is_new);
  std::optional<float> input_scale(const Node& node) const;

  Encoding& encoding_;
  const Model& model_;
  const GraphView& view_;
  // By name, those of operators by that of their codes; of operators also by that of the scale.
  std::unordered_map<std::string, size_t> tensors_, biases_;
  std::unordered_map<LayerId, std::vector<size_t>> weights_;  // by layer
  std::optional<Edges> edges_;                                // of the encoding's graph
};

// The name that a layer of the float model has; of operators on codes it is another one.
LayerId layer_of(const Node& node);

}  // namespace seqto::internal
