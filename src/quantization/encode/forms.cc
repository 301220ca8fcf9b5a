// The float model as it is quantized.
#include "quantization/encode/forms.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/bodies.h"
#include "model/graph_view.h"
#include "model/to_float32.h"
#include "quantization/encode/fold_weights.h"
#include "quantization/encode/unfuse.h"
#include "quantization/plan/overrides.h"
#include "quantization/plan/validate_options.h"
#include "quantization/plan/weight_sites.h"

namespace seqto {

using namespace internal;

namespace {

// Whether a layer reads its weights from a Constant node.
bool reads_constant_nodes(const Model& model) {
  const GraphView index(model);
  return std::ranges::any_of(model.graph.nodes, [&](const Node& node) {
    return std::ranges::any_of(weight_sites(node, [&](const std::string& name) { return index.constant(name); }),
                               [&](const WeightSite& site) { return !index.is_initializer(node.inputs[site.input]); });
  });
}

// Axes and shapes may lie in Constant nodes, which are lifted for the purpose.
Prepared with_weights_folded(Prepared prepared) {
  Model lifted = prepared.model;
  lift_constants(lifted);
  const int folded = fold_weights(lifted);
  if (folded == 0) return prepared;
  prepared.model = std::move(lifted);
  prepared.actions.push_back(fmt::format("made initializers of {} weights that were turned or reshaped", folded));
  return prepared;
}

// Q and DQ of float16 tensors came with opset 19; which those are is known when the shapes are.
Prepared with_opset_of_types(Prepared prepared, const QuantizeOptions& options) {
  const int64_t opset = prepared.model.opset();
  if (opset >= kFloat16Pairs || in_contrib_domain(options, opset) || !reads_float16(prepared.model, options))
    return prepared;
  Prepared converted =
      prepare(prepared.model, {.min_opset = kFloat16Pairs, .lift_constants = false, .fold_batch_norms = false});
  converted.actions.insert(converted.actions.begin(), prepared.actions.begin(), prepared.actions.end());
  return converted;
}

}  // namespace

bool is_widened(const Model& model, const QuantizeOptions& options) {
  constexpr size_t kMostBytes = size_t{2} << 30;  // of float16, which take twice as much memory then
  if (!options.widen_float16 || options.compat_onnxruntime) return false;
  size_t bytes = 0;
  for (const Initializer& i : model.graph.initializers)
    if (i.tensor.type() == DataType::kFloat16) bytes += i.tensor.bytes().size();
  return bytes <= kMostBytes && std::ranges::none_of(model.graph.nodes, has_body) && computes_in_float16(model);
}

Prepared internal::form_of_opset(const Model& model, const QuantizeOptions& options, int64_t opset,
                                 bool fold_batch_norms) {
  if (options.compat_onnxruntime) {
    const PrepareOptions as_it_is{
        .sort_nodes = false, .min_opset = opset, .lift_constants = false, .fold_batch_norms = false};
    return with_opset_of_types(prepare(model, as_it_is), options);
  }
  const bool widens = is_widened(model, options);
  Model apart = widens ? to_float32_inside(model) : model;
  const int unfused = unfuse(apart);
  const PrepareOptions first{.min_opset = opset,
                             .lift_constants = reads_constant_nodes(apart),
                             .fold_batch_norms = false,
                             .infer_shapes = false};
  Prepared prepared = with_weights_folded(prepare(apart, first));
  if (widens) prepared.actions.push_back("made a float32 model of a float16 one; inputs and outputs stay");
  if (unfused > 0)
    prepared.actions.push_back(fmt::format("took {} layers apart that the runtime had fused with others", unfused));
  // Constants have one name each by now.
  Prepared folded =
      prepare(prepared.model,
              {.sort_nodes = false, .min_opset = 0, .lift_constants = false, .fold_batch_norms = fold_batch_norms});
  folded.actions.insert(folded.actions.begin(), prepared.actions.begin(), prepared.actions.end());
  return with_opset_of_types(std::move(folded), options);
}

Prepared quantizable_form(const Model& model, const QuantizeOptions& options) {
  return form_of_opset(model, options, required_opset(options), false);
}

Prepared tunable_form(const Model& model, const QuantizeOptions& options, const Plan& plan) {
  int64_t opset = required_opset(options);
  for (const auto& [layer, fields] : plan.options) {
    auto it = plan.schemes.find(layer);
    if (it == plan.schemes.end() || !is_static(it->second)) continue;
    // 16 bits get Q and DQ of com.microsoft: a conversion renames tensors, whose ranges may be there already.
    if (fields.block_size.value_or(0) > 0) opset = std::max<int64_t>(opset, 21);
    if (fields.per_channel.value_or(false)) opset = std::max<int64_t>(opset, 13);
  }
  return form_of_opset(model, options, opset, true);
}

}  // namespace seqto
