#include "model/to_float32.h"

#include <sys/mman.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "model/bodies.h"
#include "model/float16.h"
#include "model/graph_view.h"
#include "model/op_traits.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

// So many zeros: pages that are only read all are the system's one page of zeros.
std::shared_ptr<const void> zeros(size_t bytes) {
  void* start = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) throw Error(Code::kInternal, "[load] no address space left for the model's constants");
  return {start, [bytes](const void* p) { ::munmap(const_cast<void*>(p), bytes); }};
}

bool is_half(const Tensor& tensor) { return tensor.type() == DataType::kFloat16; }

void widen(ValueInfo& info) {
  if (info.type != DataType::kFloat16) return;
  info.type = DataType::kFloat;
  info.proto.clear();
}

void widen(Attribute& attribute, const std::string& op_type, const std::vector<Opset>& opsets) {
  if (auto* opaque = std::get_if<OpaqueAttribute>(&attribute.value)) {
    std::vector<Model> bodies = parse_bodies(*opaque, opsets);
    for (Model& body : bodies) body = to_float32(body);
    if (!bodies.empty()) *opaque = with_bodies(*opaque, bodies);
  }
  if (auto* tensor = std::get_if<Tensor>(&attribute.value)) *tensor = to_float32(*tensor);
  // Cast, and what makes tensors of a type of its own: EyeLike, RandomNormal ... (SequenceEmpty is not met with).
  const std::string& name = attribute.name;
  const bool names_type =
      name == "to" || name == "dtype" || name == "stash_type" || name == "output_dtype" || name == "output_datatype";
  auto* type = std::get_if<int64_t>(&attribute.value);
  if (names_type && type && *type == static_cast<int64_t>(DataType::kFloat16) && op_type != "QuantizeLinear")
    *type = static_cast<int64_t>(DataType::kFloat);
}

}  // namespace

Tensor to_float32(const Tensor& tensor) {
  if (!is_half(tensor)) return tensor;
  const auto halves = tensor.values<uint16_t>();
  std::vector<float> values(halves.size());
  std::ranges::transform(halves, values.begin(), half_to_float);
  tensor.release();
  return float_tensor(tensor.dims(), std::move(values));
}

Model to_float32(const Model& model, bool values) {
  Model result = model;
  Graph& graph = result.graph;
  size_t most = 0;
  for (const Initializer& i : graph.initializers)
    if (is_half(i.tensor)) most = std::max(most, 2 * i.tensor.bytes().size());
  const auto nothing = values || most == 0 ? nullptr : zeros(most);
  for (Initializer& i : graph.initializers) {
    if (!is_half(i.tensor)) continue;
    const size_t bytes = 2 * i.tensor.bytes().size();
    if (nothing)
      i.tensor =
          Tensor(DataType::kFloat, i.tensor.dims(), nothing, {static_cast<const std::byte*>(nothing.get()), bytes});
    else i.tensor = to_float32(i.tensor);
  }
  for (auto* infos : {&graph.inputs, &graph.outputs, &graph.value_info})
    for (ValueInfo& info : *infos) widen(info);
  for (Node& node : graph.nodes)
    for (Attribute& attribute : node.attributes) widen(attribute, node.op_type, model.opsets);
  return result;
}

Model to_float32_inside(const Model& model) {
  Model result = to_float32(model);
  Graph& graph = result.graph;
  std::unordered_set<std::string> taken, constants;
  for (const Node& node : graph.nodes) taken.insert(node.outputs.begin(), node.outputs.end());
  for (const ValueInfo& input : graph.inputs) taken.insert(input.name);
  for (const Initializer& i : graph.initializers) taken.insert(i.name), constants.insert(i.name);
  std::unordered_map<std::string, std::string> inside;  // of an input or output, what stands for it
  std::vector<Node> first, last;
  const auto cast = [](const std::string& from, const std::string& to, DataType type) {
    Node node{.name = to + "_Cast", .op_type = "Cast", .inputs = {from}, .outputs = {to}};
    node.set_attribute({"to", static_cast<int64_t>(type)});
    return node;
  };
  const auto stand_in = [&](const std::string& name) {
    std::string other = name + "_float32";
    while (!taken.insert(other).second) other += "_";
    return inside[name] = other;
  };
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const ValueInfo& input = model.graph.inputs[i];
    if (input.type != DataType::kFloat16 || constants.contains(input.name)) continue;
    graph.inputs[i] = input;
    first.push_back(cast(input.name, stand_in(input.name), DataType::kFloat));
  }
  for (size_t o = 0; o < graph.outputs.size(); ++o) {
    const ValueInfo& output = model.graph.outputs[o];
    if (output.type != DataType::kFloat16 || inside.contains(output.name) || constants.contains(output.name)) continue;
    graph.outputs[o] = output;
    last.push_back(cast(stand_in(output.name), output.name, DataType::kFloat16));
  }
  for (Node& node : graph.nodes)
    for (auto* names : {&node.inputs, &node.outputs})
      for (std::string& name : *names)
        if (const auto found = inside.find(name); found != inside.end()) name = found->second;
  graph.nodes.insert(graph.nodes.begin(), first.begin(), first.end());
  graph.nodes.insert(graph.nodes.end(), last.begin(), last.end());
  return result;
}

bool computes_in_float16(const Model& model) {
  std::unordered_set<std::string> halves;
  for (const ValueInfo& input : model.graph.inputs)
    if (input.type == DataType::kFloat16) halves.insert(input.name);
  for (const Initializer& i : model.graph.initializers)
    if (is_half(i.tensor)) halves.insert(i.name);
  for (const Node& node : model.graph.nodes) {
    const bool casts = is_cast(node);
    if (!casts && std::ranges::any_of(node.inputs, [&](const auto& name) { return halves.contains(name); }))
      return true;
    const Tensor* constant = constant_value(node);
    const bool makes_halves = casts ? node.int_attribute("to", 0) == static_cast<int64_t>(DataType::kFloat16)
                                    : constant && is_half(*constant);
    if (makes_halves) halves.insert(node.outputs.begin(), node.outputs.end());
  }
  return false;
}

}  // namespace seqto::internal
