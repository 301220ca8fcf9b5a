#include "quantization/read/twins.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "base/hash.h"
#include "model/graph_view.h"
#include "model/op_traits.h"
#include "quantization/improve/graph_edit.h"
#include "quantization/plan/weight_sites.h"
#include "seqto/improve.h"

namespace seqto::internal {
namespace {

using Key = std::tuple<DataType, std::vector<int64_t>, std::string>;

// Numbers that many layers have alike tell nothing.
bool tells(const Tensor& tensor) { return tensor.is_float() && tensor.element_count() > 1; }

std::map<Key, std::vector<std::string>> by_value(const Graph& graph) {
  std::map<Key, std::vector<std::string>> result;
  for (const auto& [name, tensor] : graph.initializers)
    if (tells(tensor)) result[{tensor.type(), tensor.dims(), xxh3_hex(tensor.bytes())}].push_back(name);
  return result;
}

// Those of one name, then in order; one that is left has the other's last.
void pair_up(const std::vector<std::string>& of, const std::vector<std::string>& in,
             std::unordered_map<std::string, std::string>& pairs) {
  std::vector<std::string> ours, theirs;
  std::ranges::copy_if(of, std::back_inserter(ours),
                       [&](const auto& name) { return std::ranges::count(in, name) == 0; });
  std::ranges::copy_if(in, std::back_inserter(theirs),
                       [&](const auto& name) { return std::ranges::count(of, name) == 0; });
  for (const std::string& name : of)
    if (std::ranges::count(in, name) > 0) pairs[name] = name;
  const std::vector<std::string>& rest = theirs.empty() ? in : theirs;
  for (size_t i = 0; i < ours.size(); ++i) pairs[ours[i]] = rest[std::min(i, rest.size() - 1)];
}

std::unordered_map<std::string, std::string> twin_weights(const Graph& of, const Graph& in) {
  std::unordered_map<std::string, std::string> result;
  const auto theirs = by_value(in);
  for (const auto& [key, names] : by_value(of))
    if (const auto found = theirs.find(key); found != theirs.end()) pair_up(names, found->second, result);
  return result;
}

// A layer's operator and first weight; the weight is empty where it has none.
struct Reader {
  std::string op_type, weight;
  auto operator<=>(const Reader&) const = default;
};

std::map<Reader, std::vector<LayerId>> readers(const Model& model) {
  const GraphView view(model);
  const ConstantOf constant = [&](const std::string& name) { return view.constant(name); };
  const TransposedWeights transposed = transposed_weights(model, constant);
  std::map<Reader, std::vector<LayerId>> result;
  for (const Node& node : model.graph.nodes) {
    const std::vector<WeightSite> sites = weight_sites(node, constant, transposed);
    std::string weight = sites.empty() ? "" : sites.front().weight;
    // Of other layers any constant, as a bias or what a norm multiplies by.
    for (size_t i = 0; weight.empty() && i < node.inputs.size(); ++i)
      if (const Tensor* value = constant(node.inputs[i]); value && tells(*value)) weight = node.inputs[i];
    if (!weight.empty()) result[{node.op_type, weight}].push_back(node.name);
  }
  return result;
}

template <class Map, class From>
Map carried(const Map& found, const From& layers) {
  Map result;
  for (const auto& [ours, theirs] : layers)
    if (const auto it = found.find(theirs); it != found.end()) result.emplace(ours, it->second);
  return result;
}

// --- rewriting

std::unordered_map<std::string, const Tensor*> tensors(const Graph& graph) {
  std::unordered_map<std::string, const Tensor*> result;
  for (const Initializer& i : graph.initializers) result[i.name] = &i.tensor;
  return result;
}

// A Mul that smoothing put in front of layers.
struct Division {
  const Node* node;
  const Tensor* factors;
  std::unordered_set<LayerId> readers;
};

// Nothing where `after` differs in something else than them and the values of weights.
std::optional<std::vector<Division>> divisions(const Model& before, const Model& after) {
  std::unordered_map<LayerId, const Node*> known;
  for (const Node& node : before.graph.nodes) known[node.name] = &node;
  const auto weights = tensors(after.graph);
  const std::vector<LayerId> added = smoothing_layers(after);
  const Edges edges(after.graph);
  std::vector<Division> result;
  std::unordered_set<std::string> divided;
  for (const Node& node : after.graph.nodes) {
    const auto same = known.find(node.name);
    if (same == known.end()) {
      const auto factors = node.inputs.size() == 2 ? weights.find(node.inputs[1]) : weights.end();
      if (factors == weights.end() || std::ranges::count(added, node.name) == 0) return {};
      Division& division = result.emplace_back(Division{&node, factors->second, {}});
      for (const Node* reader : edges.readers(node.outputs[0])) division.readers.insert(reader->name);
      divided.insert(node.outputs[0]);
      continue;
    }
    const std::vector<std::string>& inputs = same->second->inputs;
    if (inputs.size() != node.inputs.size()) return {};
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i] != node.inputs[i] && (i > 0 || !divided.contains(node.inputs[i]))) return {};
  }
  return result;
}

// In front of the first of the readers' twins, for each tensor that these read.
void divide(GraphEdit& edit, const Division& division, const Twins& twins) {
  std::unordered_map<std::string, std::string> quotients;
  std::vector<Node> nodes;
  for (Node& node : edit.nodes()) {
    const auto twin = twins.layers.find(node.name);
    if (twin != twins.layers.end() && division.readers.contains(twin->second)) {
      std::string& quotient = quotients[node.inputs[0]];
      if (quotient.empty()) {
        quotient = edit.fresh(division.node->name);
        const std::string factors = edit.add(quotient + "_factors", *division.factors);
        nodes.push_back({quotient, "Mul", "", {node.inputs[0], factors}, {quotient}, {}, {}});
      }
      node.inputs[0] = quotient;
    }
    nodes.push_back(std::move(node));
  }
  edit.nodes() = std::move(nodes);
}

}  // namespace

Twins twins(const Model& of, const Model& in) {
  Twins result{.weights = twin_weights(of.graph, in.graph), .layers = {}, .strangers = {}};
  const auto ours = readers(of), theirs = readers(in);
  for (const auto& [reader, layers] : ours) {
    const auto weight = result.weights.find(reader.weight);
    if (weight == result.weights.end()) continue;
    if (const auto found = theirs.find({reader.op_type, weight->second}); found != theirs.end())
      pair_up(layers, found->second, result.layers);
  }
  const GraphView view(of);
  for (const Node& node : of.graph.nodes) {
    if (!has(node, kProduct) || result.layers.contains(node.name)) continue;
    const bool weighs = std::ranges::any_of(node.inputs, [&](const std::string& input) {
      const Tensor* value = view.constant(input);
      return value && tells(*value) && value->dims().size() > 1;
    });
    if (weighs) result.strangers.push_back(node.name);
  }
  return result;
}

Plan carried_plan(const Plan& plan, const Twins& twins, const Model& of, const Model& in) {
  std::unordered_map<LayerId, std::string> their_types;
  for (const Node& node : in.graph.nodes) their_types[node.name] = node.op_type;
  std::set<std::pair<std::string, Scheme>> held;  // by operators that the plan leaves in float none
  for (const auto& [layer, scheme] : plan.schemes) held.emplace(their_types[layer], scheme);
  std::unordered_map<LayerId, Layer> ours;
  for (Layer& layer : layers(of)) ours[layer.id] = std::move(layer);
  const std::vector<LayerId> divisions = smoothing_layers(of);
  Plan result;
  const auto take = [&](const LayerId& id, const LayerId& as) {
    const Layer& layer = ours.at(id);
    const DetailedScheme wanted = detailed_scheme(plan, as);
    if (wanted.scheme == Scheme::kFloat32 || std::ranges::count(layer.schemes, wanted.scheme) == 0 ||
        !held.contains({layer.op_type, wanted.scheme}))
      return;
    result.schemes[id] = wanted.scheme;
    if (!wanted.fields.empty()) result.options[id] = wanted.fields;
  };
  for (const std::vector<LayerId>& group : groups(of)) {
    std::optional<LayerId> leader;  // whose scheme those without weights take
    for (const LayerId& id : group)
      if (const auto twin = twins.layers.find(id); twin != twins.layers.end()) {
        take(id, twin->second);
        if (!leader || !plan.schemes.contains(*leader)) leader = twin->second;
      }
    for (const LayerId& id : group) {
      if (twins.layers.contains(id) || std::ranges::count(divisions, id) > 0) continue;
      if (leader) take(id, *leader);
      else if (const auto named = their_types.find(id);
               named != their_types.end() && named->second == ours.at(id).op_type)
        take(id, id);
    }
  }
  return result;
}

Corrections carried_corrections(const Corrections& found, const Twins& twins) {
  return {carried(found.scales, twins.layers), carried(found.rounding, twins.layers),
          carried(found.shifts, twins.layers)};
}

std::optional<Model> carried_rewriting(const Model& of, const Model& before, const Model& after, const Twins& twins) {
  const auto added = divisions(before, after);
  if (!added) return {};
  const auto old = tensors(before.graph), now = tensors(after.graph);
  Model result = of;
  for (Initializer& weight : result.graph.initializers) {
    const auto twin = twins.weights.find(weight.name);
    if (twin == twins.weights.end() || !now.contains(twin->second)) continue;
    if (const Tensor& other = *now.at(twin->second); !other.equals(*old.at(twin->second))) weight.tensor = other;
  }
  GraphEdit edit(result);
  for (const Division& division : *added) divide(edit, division, twins);
  return infer_shapes(edit.finish());
}

}  // namespace seqto::internal
