#include <algorithm>

#include "quantization/clip_bounds.h"
#include "quantization/qdq_writer.h"

namespace seqto::internal {

RangeView::RangeView(const Model& model, const GraphIndex& index, const Ranges& ranges,
                     const std::vector<bool>& selected, bool unify_concat)
    : ranges_(ranges) {
  if (unify_concat) this->unify_concat(model, index, selected);
  for (size_t i = 0; i < model.graph.nodes.size(); ++i) {
    const Node& node = model.graph.nodes[i];
    if (!selected[i] || node.inputs.empty() || node.outputs.empty()) continue;
    if (node.op_type == "Softmax") {
      adjusted_[node.outputs[0]] = {0.0f, 1.0f};
      bounds_[node.outputs[0]] = {0, 1};
    } else if (node.op_type == "Clip" || node.op_type == "Relu") {
      const auto bounds = clip_bounds(node, index);
      if (bounds) bounds_[node.outputs[0]] = *bounds;
      // What the activation cuts off needs no codes: its only input takes over the range of its output.
      auto readers = index.readers.find(node.inputs[0]);
      if (readers == index.readers.end() || readers->second != 1) continue;
      const Range* output = find(node.outputs[0]);
      if (output && find(node.inputs[0])) adjusted_[node.inputs[0]] = Range(*output);
      if (bounds) bounds_[node.inputs[0]] = *bounds;
    }
  }
}

// Of Concats in a row the last one decides.
void RangeView::unify_concat(const Model& model, const GraphIndex& index, const std::vector<bool>& selected) {
  std::unordered_map<std::string, const Node*> pools;
  for (const Node& node : model.graph.nodes)
    if (node.op_type == "MaxPool") pools[node.outputs[0]] = &node;
  const auto alone = [&](const std::string& name) {
    auto readers = index.readers.find(name);
    return readers != index.readers.end() && readers->second == 1 && !index.outputs.contains(name) &&
           !index.inputs.contains(name) && !index.captured.contains(name);
  };
  for (size_t i = model.graph.nodes.size(); i-- > 0;) {
    const Node& node = model.graph.nodes[i];
    const Range* output = selected[i] && node.op_type == "Concat" ? find(node.outputs[0]) : nullptr;
    if (!output) continue;
    const Range range = *output;
    for (const std::string& input : node.inputs) {
      // A pool's codes are those of what it reads.
      std::string name = input;
      for (auto pool = pools.find(name); alone(name) && pool != pools.end(); pool = pools.find(name))
        name = pool->second->inputs[0];
      if (alone(name) && find(name)) adjusted_[name] = range;
    }
  }
}

const Range* RangeView::find(const std::string& tensor) const {
  if (auto it = adjusted_.find(tensor); it != adjusted_.end()) return &it->second;
  auto it = ranges_.find(tensor);
  return it == ranges_.end() ? nullptr : &it->second;
}

Range RangeView::widened(const std::string& tensor, double times) const {
  Range range = *find(tensor);
  double low = range.lowest * times, high = range.highest * times;
  if (auto it = bounds_.find(tensor); it != bounds_.end()) {
    // What was seen beyond the bounds, of a tensor that others read too, stays.
    low = std::max(low, std::min<double>(it->second.first, range.lowest));
    high = std::min(high, std::max<double>(it->second.second, range.highest));
  }
  range.lowest = static_cast<float>(std::max<double>(low, -kUnbounded));
  range.highest = static_cast<float>(std::min<double>(high, kUnbounded));
  return range;
}

QuantParams activation_params(const Range& range, const QuantizeOptions& options, DataType float_type,
                              const ParamsOverride* o) {
  DataType type = o && o->quant_type ? *o->quant_type : options.activation_type;
  if (o && o->scale) return {type, {rounded(*o->scale, float_type)}, {*o->zero_point}, {}};
  float low = o ? o->rmin.value_or(range.lowest) : range.lowest;
  float high = o ? o->rmax.value_or(range.highest) : range.highest;
  bool symmetric = o ? o->symmetric.value_or(options.symmetric_activations) : options.symmetric_activations;
  ScaleZeroPoint p;
  if (options.restricted_asymmetric_activations && type == DataType::kUint8 && !symmetric) {
    p = snapped_scale_zero_point(low, high, options.min_real_range);
    p.scale = rounded(p.scale, float_type);
  } else {
    p = scale_zero_point(low, high, quant_limits(type, false, symmetric), symmetric, options.min_real_range,
                         float_type);
  }
  return {type, {p.scale}, {p.zero_point}, {}};
}

std::optional<QuantParams> ActivationParams::original(const std::string& tensor) const {
  if (!ranges_.find(tensor)) return {};
  const auto* list = overrides_of(options_, tensor);
  return params(tensor, list ? &list->front() : nullptr);
}

QuantParams ActivationParams::params(const std::string& tensor, const ParamsOverride* set) const {
  const DataType type = set && set->quant_type ? *set->quant_type : options_.activation_type;
  const Range range = is_16_bits(type) ? ranges_.widened(tensor, options_.headroom_16_bits) : *ranges_.find(tensor);
  return activation_params(range, options_, float_type(tensor), set);
}

std::optional<QuantParams> ActivationParams::converted(const std::string& tensor) const {
  const auto* list = overrides_of(options_, tensor);
  if (!ranges_.find(tensor) || !list || !list->front().convert) return {};
  return params(tensor, &*list->front().convert);
}

std::optional<QuantParams> ActivationParams::read_by(const std::string& tensor, const LayerId& node) const {
  auto params = converted(tensor);
  if (!params) return original(tensor);
  const auto& readers = overrides_of(options_, tensor)->front().convert->recv_nodes;
  return !readers || readers->contains(node) ? params : original(tensor);
}

DataType ActivationParams::float_type(const std::string& tensor) const {
  auto it = index_.types.find(tensor);
  return it != index_.types.end() && it->second == DataType::kFloat16 ? DataType::kFloat16 : DataType::kFloat;
}

}  // namespace seqto::internal
