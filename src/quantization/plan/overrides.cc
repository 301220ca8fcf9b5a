#include "quantization/plan/overrides.h"

#include <fmt/format.h>

#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "seqto/error.h"

namespace seqto::internal {

const std::vector<TensorOverride>* overrides_of(const QuantizeOptions& options, const std::string& tensor) {
  auto it = options.tensor_overrides.find(tensor);
  return it == options.tensor_overrides.end() || it->second.empty() ? nullptr : &it->second;
}

DataType activation_type_of(const QuantizeOptions& options, const std::string& tensor) {
  const auto* list = overrides_of(options, tensor);
  return list ? list->front().quant_type.value_or(options.activation_type) : options.activation_type;
}

DataType weight_type_of(const QuantizeOptions& options, const std::string& tensor) {
  const auto* list = overrides_of(options, tensor);
  return list ? list->front().quant_type.value_or(options.weight_type) : options.weight_type;
}

namespace {

template <class F>
bool any_type(const QuantizeOptions& options, F is) {
  if (is(options.activation_type) || is(options.weight_type)) return true;
  for (const auto& [tensor, list] : options.tensor_overrides)
    for (const TensorOverride& o : list)
      if ((o.quant_type && is(*o.quant_type)) || (o.convert && o.convert->quant_type && is(*o.convert->quant_type)))
        return true;
  return false;
}

}  // namespace

bool uses_16_bits(const QuantizeOptions& options) { return any_type(options, is_16_bits); }
bool uses_4_bits(const QuantizeOptions& options) { return any_type(options, is_4_bits); }
bool hides_4_bits(const QuantizeOptions& options) {
  QuantizeOptions seen = options;
  seen.tensor_overrides.clear();
  for (const auto& [tensor, list] : options.tensor_overrides) {
    bool empty = list.empty() || tensor_overrides_to_json({{"", {list.front()}}}) == R"({"":[{}]})";
    if (empty) continue;
    seen.tensor_overrides[tensor] = list;
    break;
  }
  return uses_4_bits(options) && !uses_4_bits(seen);
}

bool uses_blocks(const QuantizeOptions& options) {
  bool any = options.block_size > 0;
  for (const auto& [tensor, list] : options.tensor_overrides)
    for (const TensorOverride& o : list) any |= o.block_size.value_or(0) > 0;
  return any;
}

int64_t block_size_of(const QuantizeOptions& options, const std::string& weight) {
  const auto* list = overrides_of(options, weight);
  return list ? list->front().block_size.value_or(options.block_size) : options.block_size;
}

int64_t required_opset(const QuantizeOptions& options) {
  if (uses_blocks(options) || uses_16_bits(options)) return 21;
  bool per_channel = options.per_channel && options.format == QuantFormat::kQdq;
  for (const auto& [tensor, list] : options.tensor_overrides)
    for (const TensorOverride& o : list) per_channel |= o.axis.has_value() || o.per_channel.value_or(false);
  return per_channel ? 13 : 11;
}

bool in_contrib_domain(const QuantizeOptions& options, int64_t opset) {
  return options.use_qdq_contrib_ops || (opset < 21 && (uses_16_bits(options) || uses_4_bits(options)));
}

std::optional<int64_t> normalized_axis(int64_t axis, size_t rank) {
  if (axis < 0) axis += static_cast<int64_t>(rank);
  if (axis < 0 || axis >= static_cast<int64_t>(rank)) return {};
  return axis;
}

namespace {

class Validator {
 public:
  Validator(const Model& model, const QuantizeOptions& options) : options_(options) {
    const Graph& g = model.graph;
    for (const auto* list : {&g.inputs, &g.outputs, &g.value_info})
      for (const ValueInfo& v : *list) tensors_.insert(v.name);
    for (const Node& n : g.nodes)
      for (const auto& name : n.outputs) tensors_.insert(name);
    for (const Initializer& i : g.initializers) initializers_[i.name] = &i.tensor;
  }

  void run() {
    for (const auto& [tensor, list] : options_.tensor_overrides) {
      name_ = &tensor;
      if (!initializers_.contains(tensor) && !tensors_.contains(tensor)) fail("the model has no such tensor");
      if (list.empty()) continue;
      if (list.size() > 1 || list.front().axis) check_channels(list);
      else check_tensor(list.front());
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(Code::kInvalidInput, fmt::format("[overrides] tensor '{}': {}; correct the overrides", *name_, what));
  }

  bool is_initializer() const { return initializers_.contains(*name_); }

  void check_params(const ParamsOverride& o, DataType otherwise) const {
    DataType type = o.quant_type.value_or(otherwise);
    if (!is_8_bits(type) && !is_16_bits(type) && !is_4_bits(type))
      fail(fmt::format("type {} found, an integer type of 4, 8 or 16 bits expected", to_string(type)));
    if (o.scale.has_value() != o.zero_point.has_value()) fail("scale and zero_point belong together, one was found");
    if (o.scale && (o.symmetric || o.reduce_range || o.rmin || o.rmax))
      fail("scale and zero_point found beside symmetric, reduce_range, rmin or rmax; only one way is possible");
    if (o.scale && !(std::isfinite(*o.scale) && *o.scale > 0)) fail(fmt::format("scale {} is not positive", *o.scale));
    QuantLimits limits = quant_limits(type);
    if (o.zero_point && (*o.zero_point < limits.lowest || *o.zero_point > limits.highest))
      fail(fmt::format("zero_point {} lies outside of {}", *o.zero_point, to_string(type)));
    if (o.rmin && o.rmax && *o.rmin > *o.rmax) fail(fmt::format("rmin {} is above rmax {}", *o.rmin, *o.rmax));
    if (o.reduce_range && !is_initializer()) fail("reduce_range is for initializers only");
  }

  void check_tensor(const TensorOverride& o) const {
    check_params(o, is_initializer() ? options_.weight_type : options_.activation_type);
    if ((o.per_channel || o.weight_clipping || o.block_size) && !is_initializer())
      fail("per_channel, weight_clipping and block_size are for initializers only");
    if (!o.convert) return;
    if (is_initializer()) fail("convert is for activations only");
    if (!o.convert->quant_type) fail("convert has no quant_type");
    check_params(*o.convert, *o.convert->quant_type);
    if (*o.convert->quant_type == o.quant_type.value_or(options_.activation_type))
      fail("convert has the type that the tensor has already");
  }

  void check_channels(const std::vector<TensorOverride>& list) const {
    auto it = initializers_.find(*name_);
    if (it == initializers_.end()) fail("entries per channel found; only initializers have channels");
    const TensorOverride& first = list.front();
    if (!first.axis) fail("the first entry has no axis");
    auto axis = normalized_axis(*first.axis, it->second->dims().size());
    if (!axis) fail(fmt::format("axis {} found, the rank is {}", *first.axis, it->second->dims().size()));
    int64_t channels = it->second->dims()[static_cast<size_t>(*axis)];
    if (list.size() > 1 && static_cast<int64_t>(list.size()) != channels)
      fail(fmt::format("{} entries found, one or {} expected", list.size(), channels));
    for (const TensorOverride& o : list) {
      check_params(o, first.quant_type.value_or(options_.weight_type));
      if (o.convert) fail("convert is for activations only");
      if (o.rmin.has_value() != o.rmax.has_value()) fail("rmin and rmax belong together, one was found");
      bool other = (o.quant_type && o.quant_type != first.quant_type) ||
                   (o.symmetric && o.symmetric != first.symmetric) ||
                   (o.reduce_range && o.reduce_range != first.reduce_range) ||
                   (o.axis && normalized_axis(*o.axis, it->second->dims().size()) != axis);
      if (other) fail("quant_type, symmetric, reduce_range or axis differ between channels");
      if (first.scale.has_value() != o.scale.has_value()) fail("only some channels have scale and zero_point");
      if (first.rmin && !o.rmin) fail("only some channels have rmin and rmax");
    }
  }

  const QuantizeOptions& options_;
  const std::string* name_ = nullptr;
  std::unordered_set<std::string> tensors_;
  std::unordered_map<std::string, const Tensor*> initializers_;
};

}  // namespace

void validate_overrides(const Model& model, const QuantizeOptions& options) { Validator(model, options).run(); }

}  // namespace seqto::internal
