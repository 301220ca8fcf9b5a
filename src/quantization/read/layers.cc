// What can be done with each layer of a model.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "model/bodies.h"
#include "model/op_traits.h"
#include "quantization/plan/weight_sites.h"
#include "quantization/read/computed_weights.h"
#include "quantization/read/layer_form.h"
#include "seqto/error.h"
#include "seqto/explain.h"
#include "seqto/quantize.h"

namespace seqto {
namespace {

constexpr std::string_view kTreeDomain = "ai.onnx.ml";

bool is_dynamic_op(const Node& node) {
  const auto& types = default_op_types(Scheme::kInt8Dynamic);
  return std::find(types.begin(), types.end(), node.op_type) != types.end();
}

std::vector<Scheme> schemes_of(const Node& node, bool statically, const internal::ConstantOf& constant,
                               const internal::TransposedWeights& transposed) {
  std::vector<Scheme> schemes{Scheme::kFloat32};
  if (internal::has_body(node)) return schemes;
  schemes.push_back(Scheme::kFloat16);
  if (statically) schemes.insert(schemes.end(), {Scheme::kInt8, Scheme::kInt8wInt16a});
  auto sites = internal::weight_sites(node, constant, transposed);
  // onnxruntime's operators with activations quantized at run time read their weights as they lie in the file.
  bool direct = std::ranges::any_of(sites, [](const auto& site) { return !site.transposed; });
  if (direct && is_dynamic_op(node)) schemes.push_back(Scheme::kInt8Dynamic);
  if (!sites.empty()) schemes.insert(schemes.end(), {Scheme::kInt8Weights, Scheme::kInt4Weights});
  return schemes;
}

bool is_quantized(const Node& node, const internal::LayerForms& forms) {
  Scheme scheme = forms.of(node).scheme;
  return forms.is_plumbing(node) || (scheme != Scheme::kFloat32 && scheme != Scheme::kFloat16);
}

// Of what nothing is known but its name, or of values that no pair of Q and DQ reads; "" where there is a rule.
std::string why_never(const Node& node, const internal::LayerForms& forms, const internal::ConstantOf& constant) {
  if (!node.domain.empty() && node.domain != "ai.onnx" && node.domain != "com.microsoft")
    return fmt::format("is an operator of {}, not of ONNX", node.domain);
  const auto type_of = [&](const std::string& name) {
    if (const Tensor* value = constant(name)) return value->type();
    const auto known = forms.index().types.find(name);
    return known == forms.index().types.end() ? DataType::kUndefined : known->second;
  };
  for (size_t k : internal::data_inputs(node))
    if (const DataType type = type_of(node.inputs[k]); type == DataType::kDouble || type == DataType::kBfloat16)
      return fmt::format("'{}' is {}: float32 or float16 expected", node.inputs[k], to_string(type));
  return {};
}

// Why the quantizer cannot touch a node; "" where it can.
std::string why_not(const Node& node, const internal::LayerForms& forms, const internal::ConstantOf& constant) {
  if (forms.is_plumbing(node)) return "is quantization itself";
  internal::LayerForm form = forms.of(node);
  if (form.scheme != Scheme::kFloat32 && form.scheme != Scheme::kFloat16)
    return fmt::format("is {} already: {}", to_string(form.scheme), form.how);
  const auto& types = default_op_types();
  if (std::find(types.begin(), types.end(), node.op_type) == types.end())
    return fmt::format("op type {} is not in the quantizer's list", node.op_type);
  for (size_t k : internal::data_inputs(node))
    if (const Tensor* value = constant(node.inputs[k]); value && value->is_float() && value->element_count() == 0)
      return fmt::format("'{}' has no elements", node.inputs[k]);
  return forms.why_no_floats(node);
}

}  // namespace

std::vector<Layer> layers(const Model& model) {
  std::unordered_map<std::string, const ValueInfo*> infos;
  for (const auto* list : {&model.graph.value_info, &model.graph.outputs})
    for (const ValueInfo& v : *list) infos[v.name] = &v;
  internal::LayerForms forms(model);
  const internal::ConstantOf constant = [&](const std::string& name) { return forms.index().constant(name); };
  const internal::TransposedWeights transposed = internal::transposed_weights(model, constant);
  std::vector<Layer> result;
  for (const Node& node : model.graph.nodes) {
    Layer layer;
    layer.id = node.name;
    layer.op_type = node.op_type;
    for (const auto& name : node.inputs)
      if (const Tensor* value = constant(name); value && value->is_float())
        layer.weight_bytes += static_cast<int64_t>(value->bytes().size());
    if (!node.outputs.empty())
      if (auto it = infos.find(node.outputs[0]); it != infos.end() && it->second->shape)
        for (const Dimension& d : *it->second->shape) layer.output_shape.push_back(d.value);
    layer.reason = why_never(node, forms, constant);
    const bool never = !layer.reason.empty();
    if (!never) layer.reason = why_not(node, forms, constant);
    layer.quantizable = layer.reason.empty();
    layer.schemes = {Scheme::kFloat32};
    if (!never && !is_quantized(node, forms)) layer.schemes = schemes_of(node, layer.quantizable, constant, transposed);
    result.push_back(std::move(layer));
  }
  return result;
}

Plan uniform_plan(const Model& model, const DetailedScheme& detailed, const std::vector<LayerId>& excluded) {
  const auto& [scheme, fields] = detailed;
  std::unordered_set<std::string> out(excluded.begin(), excluded.end());
  Plan plan;
  for (const Layer& layer : layers(model)) {
    if (std::ranges::find(layer.schemes, scheme) == layer.schemes.end() || out.contains(layer.id)) continue;
    plan.schemes[layer.id] = scheme;
    if (!fields.empty()) plan.options[layer.id] = fields;
  }
  return plan;
}

// What an optimized file holds in place of plain convolutions, no scheme can be written for.
void refuse_nchwc(const Model& model) {
  const auto count = std::ranges::count_if(model.graph.nodes, [](const Node& node) {
    return node.domain == "com.microsoft.nchwc" && internal::is_conv(node);
  });
  if (count == 0) return;
  throw Error(Code::kInvalidInput,
              fmt::format("[quantize] {} Conv of com.microsoft.nchwc found: a model that ONNX Runtime optimized and "
                          "saved at its level ALL, whose weights are laid out for one processor; plain Conv expected; "
                          "take the model before that, or save it at the level ORT_ENABLE_EXTENDED",
                          count));
}

void refuse_trees(const Model& model) {
  refuse_nchwc(model);
  std::set<std::string> operators;
  for (const Node& node : model.graph.nodes)
    if (node.domain == kTreeDomain) operators.insert(node.op_type);
  if (operators.empty()) return;
  for (const Layer& layer : layers(model))
    if (layer.weight_bytes > 0 && layer.schemes.size() > 1) return;
  bool trees =
      std::any_of(operators.begin(), operators.end(), [](const auto& op) { return op.starts_with("TreeEns"); });
  throw Error(Code::kInvalidInput,
              fmt::format("[quantize] nothing to quantize: {} ({} of {}) found, {}; a model with Conv, Gemm, MatMul or "
                          "other layers with weights was expected; deploy this one as it is",
                          trees ? "a tree ensemble" : "a model of classic machine learning", fmt::join(operators, ", "),
                          kTreeDomain,
                          trees ? "whose thresholds and leaves are compared and looked up, never multiplied"
                                : "whose operators keep their parameters to themselves"));
}

namespace {

// Of a kind with weights: the quantizer's for activations at run time are so but for Transpose.
bool is_weighted(const Node& node, Scheme scheme) {
  if (internal::has(node, internal::kProduct) || internal::is_gather(node)) return true;
  return scheme == Scheme::kInt8Dynamic && is_dynamic_op(node) && !internal::moves_values(node);
}

void refuse_other_floats(const Model& model, Scheme scheme) {
  std::unordered_map<std::string, DataType> constants;
  for (const Initializer& i : model.graph.initializers)
    if (i.tensor.type() == DataType::kDouble || i.tensor.type() == DataType::kBfloat16)
      constants[i.name] = i.tensor.type();
  for (const Node& node : model.graph.nodes)
    for (const std::string& name : node.inputs)
      if (const auto found = constants.find(name); found != constants.end() && is_weighted(node, scheme))
        throw Error(Code::kInvalidInput,
                    fmt::format("[quantize] nothing to quantize: {} '{}' with weights of {} found; float32 or float16 "
                                "expected; export the model in float32",
                                node.op_type, node.name, to_string(found->second)));
}

}  // namespace

void require_quantizable(const Model& model, Scheme scheme) {
  refuse_trees(model);
  std::unordered_set<std::string> constants;
  for (const Initializer& i : model.graph.initializers)
    if (i.tensor.is_float()) constants.insert(i.name);
  bool has_bias = false;  // which files keep in float whose weights are codes
  for (const Node& node : model.graph.nodes) {
    if (!is_weighted(node, scheme)) continue;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!constants.contains(node.inputs[i])) continue;
      if (i != internal::bias_input(node)) return;
      has_bias = true;
    }
  }
  if (std::string form = quantized_form(model).form; form != "float" && form != "float16")
    throw Error(Code::kInvalidInput,
                fmt::format("[quantize] a model that is quantized already ({}) found, whose weights are codes; layers "
                            "with float weights were expected; turn it back to float with `seqto prepare MODEL "
                            "--dequantize -o FLOAT` first",
                            form));
  if (has_bias) return;
  bool inside = false;
  internal::for_each_body_node(model, [&](const Node& node) { inside |= is_weighted(node, scheme); });
  if (inside)
    throw Error(Code::kInvalidInput,
                "[quantize] nothing to quantize: all layers found lie in the bodies of If, Loop or Scan; layers of the "
                "main graph were expected; `--mode dynamic --enable-subgraph` quantizes bodies; `seqto tune ENCODER "
                "DECODER` tunes a merged decoder; where one input decides the branch, `seqto prepare MODEL "
                "--fix-input NAME=NUMBER -o OUT` leaves that branch alone");
  refuse_other_floats(model, scheme);
  if (const int computed = internal::layers_of_computed_weights(model); computed > 0)
    throw Error(
        Code::kInvalidInput,
        fmt::format("[quantize] nothing to quantize: the weights of {} layer{} found are computed from constants, "
                    "as by a Cast of float16; constants were expected; `seqto prepare MODEL -o OUT` makes them",
                    computed, computed == 1 ? "" : "s"));
  throw Error(
      Code::kInvalidInput,
      "[quantize] nothing to quantize: the model has no Conv, ConvTranspose, Gemm, MatMul or Gather with constant "
      "weights; the file would stay the same size; choose a model with such layers");
}

}  // namespace seqto
