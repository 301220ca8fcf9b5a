#include "quantization/encode/unfuse.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "model/graph_view.h"
#include "model/op_traits.h"
#include "quantization/arithmetic/channels.h"

namespace seqto::internal {
namespace {

constexpr std::string_view kContrib = "com.microsoft";

struct Layer {
  std::string_view fused, op_type;
};
constexpr Layer kLayers[]{{"FusedConv", "Conv"}, {"FusedGemm", "Gemm"}, {"FusedMatMul", "MatMul"}};

const Layer* layer_of(const Node& node) {
  const auto* it = std::ranges::find(kLayers, node.op_type, &Layer::fused);
  return node.domain != kContrib || it == std::end(kLayers) ? nullptr : it;
}

// The activations that the runtime fuses, with what their parameters are called, in its order.
struct Activation {
  std::string_view op_type;
  std::array<const char*, 2> parameters;
};
constexpr Activation kActivations[]{{"Relu", {}},
                                    {"Tanh", {}},
                                    {"Sigmoid", {}},
                                    {"Softplus", {}},
                                    {"Softsign", {}},
                                    {"LeakyRelu", {"alpha"}},
                                    {"Elu", {"alpha"}},
                                    {"ThresholdedRelu", {"alpha"}},
                                    {"HardSigmoid", {"alpha", "beta"}},
                                    {"Clip", {"min", "max"}}};

const Activation* activation_of(const Node& node) {
  const std::string op_type = node.string_attribute("activation", "");
  const auto* it = std::ranges::find(kActivations, op_type, &Activation::op_type);
  return it == std::end(kActivations) ? nullptr : it;
}

size_t parameter_count(const Activation& activation) {
  return static_cast<size_t>(std::ranges::count_if(activation.parameters, [](const char* name) { return name; }));
}

// Of FusedConv a list, of FusedGemm an attribute each.
std::vector<float> parameters_of(const Node& node) {
  if (const Attribute* list = node.attribute("activation_params"))
    if (const auto* values = std::get_if<std::vector<float>>(&list->value)) return *values;
  std::vector<float> values;
  for (const char* name : {"activation_alpha", "activation_beta"})
    if (node.attribute(name)) values.push_back(node.float_attribute(name, 0));
  return values;
}

class Unfuser {
 public:
  explicit Unfuser(Model& model) : graph_(model.graph), opset_(model.opset()), edges_(model.graph) {
    for (const Initializer& i : graph_.initializers) taken_.insert(i.name);
    for (const ValueInfo& v : graph_.inputs) taken_.insert(v.name);
    for (const Node& node : graph_.nodes) taken_.insert(node.outputs.begin(), node.outputs.end());
  }

  int unfuse() {
    std::vector<Node> nodes;
    nodes.reserve(graph_.nodes.size());
    int count = 0;
    for (const Node& node : graph_.nodes) {
      std::vector<Node> parts = parts_of(node);
      count += !parts.empty();
      if (parts.empty()) nodes.push_back(node);
      else std::ranges::move(parts, std::back_inserter(nodes));
    }
    if (count > 0) graph_.nodes = std::move(nodes);
    return count;
  }

 private:
  std::vector<Node> parts_of(const Node& node) {
    const Layer* layer = layer_of(node);
    if (!layer || node.inputs.size() < 2 || node.outputs.size() != 1) return {};
    const Tensor* weight = graph_.initializer(node.inputs[1]);
    if (!weight || weight->type() != DataType::kFloat) return {};
    return layer->op_type == "MatMul" ? of_product(node, *weight) : with_activation(node, layer->op_type);
  }

  std::vector<Node> with_activation(const Node& node, std::string_view op_type) {
    const Activation* activation = activation_of(node);
    const std::vector<float> values = parameters_of(node);
    const bool activated = node.attribute("activation") != nullptr;  // a convolution may only add
    if (activated && (!activation || values.size() < parameter_count(*activation))) return {};
    std::vector<Node> parts{node};
    Node& layer = parts[0];
    layer.op_type = op_type;
    layer.domain.clear();
    std::erase_if(layer.attributes, [](const Attribute& a) { return a.name.starts_with("activation"); });
    // A convolution's fourth input is added to what it computes.
    const std::string added = layer.inputs.size() > 3 ? layer.inputs[3] : "";
    layer.inputs.resize(std::min<size_t>(layer.inputs.size(), 3));
    if (layer.inputs.back().empty()) layer.inputs.pop_back();
    if (!added.empty()) append(parts, "Add", {added});
    if (!activated) return parts;
    Node& last = append(parts, std::string(activation->op_type), {});
    for (size_t i = 0; i < parameter_count(*activation); ++i) {
      const char* name = activation->parameters[i];
      if (is_clip(last) && opset_ >= 11) last.inputs.push_back(constant(last.outputs[0], name, values[i]));
      else last.set_attribute({name, values[i]});
    }
    return parts;
  }

  // Of a weight of two axes. One that is transposed is so before the product, where others read it as it is.
  std::vector<Node> of_product(const Node& node, const Tensor& weight) {
    if (weight.dims().size() != 2) return {};
    for (const char* flag : {"transA", "transBatchA", "transBatchB"})
      if (node.int_attribute(flag, 0) != 0) return {};
    std::vector<Node> parts;
    Node product{
        .name = node.name, .op_type = "MatMul", .inputs = node.inputs, .outputs = node.outputs, .rest = node.rest};
    if (node.int_attribute("transB", 0) != 0) {
      const std::string turned = fresh(node.outputs[0] + "_weight");
      Node transpose{
          .name = node.name + "_transpose", .op_type = "Transpose", .inputs = {node.inputs[1]}, .outputs = {turned}};
      transpose.set_attribute({"perm", std::vector<int64_t>{1, 0}});
      parts.push_back(std::move(transpose));
      product.inputs[1] = turned;
    }
    parts.push_back(std::move(product));
    if (const float alpha = node.float_attribute("alpha", 1); alpha != 1) {
      if (edges_.uses(node.inputs[1]) == 1) scale(node.inputs[1], alpha);
      else append(parts, "Mul", {constant(node.outputs[0], "alpha", alpha)});
    }
    return parts;
  }

  // A node that reads the last one, whose output it gives.
  Node& append(std::vector<Node>& parts, const std::string& op_type, std::vector<std::string> others) {
    const std::string output = parts.back().outputs[0];
    parts.back().outputs[0] = fresh(output + "_before_" + op_type);
    others.insert(others.begin(), parts.back().outputs[0]);
    return parts.emplace_back(Node{
        .name = parts[0].name + "_" + op_type, .op_type = op_type, .inputs = std::move(others), .outputs = {output}});
  }

  std::string constant(const std::string& tensor, const char* what, float value) {
    const std::string name = fresh(tensor + "_" + what);
    graph_.initializers.push_back({name, float_tensor({}, {value})});
    return name;
  }

  void scale(const std::string& weight, float factor) {
    const auto it = std::ranges::find(graph_.initializers, weight, &Initializer::name);
    const std::vector<float> factors(static_cast<size_t>(it->tensor.dims()[0]), factor);
    it->tensor = scaled(it->tensor, 0, factors, false);
  }

  std::string fresh(std::string name) {
    while (!taken_.insert(name).second) name += "_";
    return name;
  }

  Graph& graph_;
  const int64_t opset_;
  const Edges edges_;
  std::unordered_set<std::string> taken_;
};

}  // namespace

int unfuse(Model& model) { return std::ranges::any_of(model.graph.nodes, layer_of) ? Unfuser(model).unfuse() : 0; }

}  // namespace seqto::internal
