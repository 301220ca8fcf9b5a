// The encodings of a quantized model, by the tensors of the float model.
#include "model/graph_view.h"
#include "model/op_traits.h"
#include "quantization/plan/layer_names.h"
#include "quantization/read/compare_tensors.h"
#include "seqto/dialects.h"

namespace seqto {
namespace {

class Encodings {
 public:
  Encodings(const Model& float_model, const Model& quantized)
      : comparison_(internal::compare_tensors(float_model, quantized)), index_(comparison_.quantized) {
    for (const Node& node : comparison_.quantized.graph.nodes)
      counterparts_[internal::original_name(node.name)] = &node;
    for (const auto& pair : comparison_.activations) add(pair.tensor, pair.after, false);
    const internal::GraphView floats(float_model);
    for (const Node& node : float_model.graph.nodes) {
      const auto it = counterparts_.find(node.name);
      if (it == counterparts_.end()) continue;
      for (size_t i = 0; i < node.inputs.size() && i < it->second->inputs.size(); ++i)
        if (floats.is_initializer(node.inputs[i]) && floats.is_float(node.inputs[i]))
          add(node.inputs[i], it->second->inputs[i], true);
    }
  }

  TensorOverrides result;

 private:
  // `dequantized` is what the float model's `tensor` has become.
  void add(const std::string& tensor, const std::string& dequantized, bool weight) {
    const Node* producer = index_.edges.producer(dequantized);
    if (!producer || !internal::is_dequantize(*producer) || result.contains(tensor)) return;
    const Node& node = *producer;
    const Tensor* scale = index_.constant(node.inputs[1]);
    const Tensor* zero_point = node.inputs.size() > 2 ? index_.constant(node.inputs[2]) : nullptr;
    const DataType type = zero_point ? zero_point->type() : type_of_codes(node);
    if (!scale || type == DataType::kInt32 || node.int_attribute("block_size", 0) > 0) return;
    std::vector<TensorOverride> entries(static_cast<size_t>(scale->element_count()));
    for (size_t c = 0; c < entries.size(); ++c) {
      entries[c].quant_type = type;
      entries[c].scale = static_cast<float>(element(*scale, static_cast<int64_t>(c)));
      entries[c].zero_point =
          zero_point ? static_cast<int32_t>(element(*zero_point, static_cast<int64_t>(c))) : int32_t{0};
    }
    if (entries.empty() || (entries.size() > 1 && !weight)) return;
    if (!scale->dims().empty() && entries.size() > 1) entries.front().axis = node.int_attribute("axis", 1);
    result[tensor] = std::move(entries);
  }

  // Without a zero point.
  DataType type_of_codes(const Node& dequantize) const {
    const auto known = index_.types.find(dequantize.inputs[0]);
    if (known != index_.types.end() && known->second != DataType::kUndefined) return known->second;
    const Node* quantize = index_.edges.producer(dequantize.inputs[0]);
    const int64_t given = quantize ? quantize->int_attribute("output_dtype", 0) : 0;
    return given == 0 ? DataType::kUint8 : static_cast<DataType>(given);
  }

  internal::Comparison comparison_;
  internal::GraphView index_;
  std::unordered_map<std::string, const Node*> counterparts_;
};

}  // namespace

TensorOverrides encodings_of(const Model& float_model, const Model& quantized) {
  return Encodings(float_model, quantized).result;
}

}  // namespace seqto
