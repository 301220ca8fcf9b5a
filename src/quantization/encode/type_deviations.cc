#include "quantization/encode/type_deviations.h"

#include "model/op_traits.h"

namespace seqto::internal {
namespace {

template <class Selected, class Fits>
bool any_softmax(const Model& model, const Selected& selected, const Fits& fits) {
  for (size_t i = 0; i < model.graph.nodes.size(); ++i) {
    const Node& n = model.graph.nodes[i];
    if (is_softmax(n) && selected(i) && fits(n.outputs[0])) return true;
  }
  return false;
}

// Whether the user's word about a tensor settles its scale.
bool gives_scale(const std::vector<TensorOverride>& overrides) {
  auto sets_type = [](const ParamsOverride& o) { return o.scale || o.rmax; };
  const TensorOverride& first = overrides.front();
  return sets_type(first) || (first.convert && sets_type(*first.convert));
}

}  // namespace

bool has_float32_scale(const StaticNodes& nodes, const QuantizeOptions& options, const ActivationParams& params,
                       Marks& marks) {
  auto half = [&](const std::string& tensor) { return params.float_type(tensor) == DataType::kFloat16; };
  bool found = any_softmax(nodes.model, [&](size_t i) { return nodes.selected[i]; }, half);
  marks.tensors.for_each([&](const std::string& name, const Mark& mark) {
    const auto* overrides = overrides_of(options, name);
    const bool given = options.restricted_asymmetric_activations || (overrides && gives_scale(*overrides));
    found |= given && mark.provider.empty() && !nodes.view.is_initializer(name) && half(name);
  });
  return found;
}

bool has_unranged_softmax(const Model& model, const RangeView& ranges, const std::function<bool(size_t)>& selected) {
  return any_softmax(model, selected, [&](const std::string& output) { return !ranges.was_calibrated(output); });
}

}  // namespace seqto::internal
