#include <fmt/format.h>
#include <onnx/checker.h>
#include <onnx/version_converter/convert.h>

#include <algorithm>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>

#include "model/bodies.h"
#include "model/graph_view.h"
#include "model/known_shapes.h"
#include "model/op_traits.h"
#include "model/proto.h"
#include "model/shape_registry.h"
#include "model/sort_nodes.h"
#include "model/unneeded.h"
#include "seqto/error.h"

namespace seqto {

namespace {

// Neither a shape, nor maybe a type, nor a sequence.
bool is_open(const ValueInfo& v) {
  if (v.type != DataType::kUndefined || v.proto.empty()) return !v.shape;
  onnx::ValueInfoProto proto;
  return proto.ParseFromString(v.proto) && !proto.has_type();
}

// What the runtime alone has in ONNX's domain goes to `domain`, which ONNX's own tools do not look into.
bool move_out(Model& model, const char* domain) {
  bool moved = false;
  for (Node& node : model.graph.nodes)
    if (node.domain.empty() && internal::only_in_runtime(node.op_type, model.opset()))
      node.domain = domain, moved = true;
  return moved;
}

// An input or output without a shape gets one, which the checker looks at no further: runtimes find out.
Model checkable(Model model) {
  const bool moved = move_out(model, "com.microsoft");
  const bool imported = std::ranges::find(model.opsets, "com.microsoft", &Opset::domain) != model.opsets.end();
  for (auto* values : {&model.graph.inputs, &model.graph.outputs})
    for (ValueInfo& v : *values)
      if (is_open(v)) v = {v.name, DataType::kFloat, std::vector<Dimension>(), ""};
  if (moved && !imported) model.opsets.push_back({"com.microsoft", 1});
  return model;
}

// What a graph says of its tensors, and what the graphs around it do.
struct Scope {
  internal::GraphView view;
  std::unordered_map<std::string, const std::vector<Dimension>*> shapes;
  const Scope* outer = nullptr;

  const Tensor* constant(const std::string& name) const {
    const Tensor* found = view.constant(name);
    return found || !outer ? found : outer->constant(name);
  }
  const std::vector<Dimension>* shape(const std::string& name) const {
    if (const auto it = shapes.find(name); it != shapes.end()) return it->second;
    return outer ? outer->shape(name) : nullptr;
  }
};

// Whether some axis becomes shorter, and some longer.
struct Change {
  bool shrinks = false, grows = false;

  void add(double now, double before) {
    if (now < before) shrinks = true;
    if (now > before) grows = true;
  }
};

// By its scales, else by the shapes; nothing where neither is known.
std::optional<Change> change_by(const Node& resize, const Scope& scope) {
  Change change;
  if (const Tensor* scales = resize.inputs.size() > 2 ? scope.constant(resize.inputs[2]) : nullptr) {
    for (int64_t i = 0; i < scales->element_count(); ++i) change.add(element(*scales, i), 1);
    return change;
  }
  const auto *before = scope.shape(resize.inputs.at(0)), *now = scope.shape(resize.outputs.at(0));
  if (!before || !now || before->size() != now->size()) return {};
  for (size_t d = 0; d < now->size(); ++d) {
    if ((*before)[d].value < 0 || (*now)[d].value < 0) {
      if (d < 2) continue;  // samples and channels are not resized
      return {};
    }
    change.add(static_cast<double>((*now)[d].value), static_cast<double>((*before)[d].value));
  }
  return change;
}

// Up to opset 10 an output's pixel lies at its number over the scale, between pixels the lower is the nearest, and
// where an axis shrinks the upper: what runtimes do, and what the attributes of opset 11 say. ONNX's converter leaves
// their defaults, which say something else. `given` is the model before. Returns whether there was a Resize.
bool place_pixels(Graph& graph, const Scope& scope, const Model& given) {
  bool any = false;
  for (Node& node : graph.nodes) {
    for (Attribute& a : node.attributes) {
      auto* opaque = std::get_if<OpaqueAttribute>(&a.value);
      if (!opaque) continue;
      std::vector<Model> bodies = internal::parse_bodies(*opaque, given.opsets);
      bool inside = false;
      for (Model& body : bodies)
        inside |=
            place_pixels(body.graph, {internal::GraphView(body), internal::known_shapes(body.graph), &scope}, given);
      if (inside) *opaque = internal::with_bodies(*opaque, bodies);
      any |= inside;
    }
    if (!node.domain.empty() || !internal::is_resize(node)) continue;
    any = true;
    node.set_attribute({"coordinate_transformation_mode", std::string("asymmetric")});
    if (node.string_attribute("mode", "nearest") != "nearest") continue;
    std::optional<Change> change = change_by(node, scope);
    if (!change && given.opset() < 10) change.emplace();  // Upsample makes nothing shorter
    if (!change) throw std::runtime_error("a Resize of nearest pixels whose scales are computed from open dimensions");
    if (change->shrinks && change->grows)
      throw std::runtime_error("a Resize of nearest pixels that makes one axis longer and another shorter");
    node.set_attribute({"nearest_mode", std::string(change->shrinks ? "ceil" : "floor")});
  }
  return any;
}

void place_pixels(Model& converted, const Model& given) {
  const Model inferred = infer_shapes(given);
  place_pixels(converted.graph, {internal::GraphView(converted), internal::known_shapes(inferred.graph)}, given);
}

}  // namespace

void check_model(const Model& model) {
  try {
    onnx::checker::check_model(internal::to_proto(checkable(model), internal::Weights::kSmallElseEmpty));
  } catch (const std::exception& error) {
    throw Error(
        Code::kInvalidInput,
        fmt::format("[check] onnx.checker says: {}; a valid model was expected; export it again", error.what()));
  }
}

Model infer_shapes(const Model& model) {
  onnx::ModelProto proto = internal::to_proto(model, internal::Weights::kSmallOnly);
  internal::infer_types(proto);
  proto.mutable_graph()->clear_initializer();  // big ones came without their bytes
  Model inferred = model;
  Model read = internal::from_proto(std::move(proto), {});
  inferred.graph.value_info = std::move(read.graph.value_info);
  inferred.graph.outputs = std::move(read.graph.outputs);
  return inferred;
}

bool sort_nodes(Model& model) { return internal::sort_nodes(model.graph); }

void name_nodes(Model& model) {
  std::unordered_set<std::string> taken;
  for (const Node& node : model.graph.nodes) taken.insert(node.name);
  std::unordered_set<std::string> seen;
  std::unordered_map<std::string, int> suffixes;  // the last one of each name
  auto fresh = [&](const std::string& wanted) {
    std::string name = wanted;
    for (int& k = suffixes[wanted]; taken.contains(name) || seen.contains(name);)
      name = fmt::format("{}_{}", wanted, ++k);
    return name;
  };
  for (size_t i = 0; i < model.graph.nodes.size(); ++i) {
    Node& node = model.graph.nodes[i];
    if (node.name.empty()) node.name = fresh(fmt::format("node_{}", i));
    else if (seen.contains(node.name)) node.name = fresh(node.name);
    seen.insert(node.name);
  }
}

Model convert_opset(const Model& model, int64_t version) {
  constexpr const char* kAside = "seqto.aside";
  try {
    Model known = model;
    if (move_out(known, kAside)) known.opsets.push_back({kAside, 1});
    onnx::ModelProto converted = onnx::version_conversion::ConvertVersion(
        internal::to_proto(known, internal::Weights::kSmallOnly), static_cast<int>(version));
    Model result = internal::from_proto(std::move(converted), {.left_out = &model});
    for (Node& node : result.graph.nodes)
      if (node.domain == kAside) node.domain.clear();
    std::erase_if(result.opsets, [&](const Opset& o) { return o.domain == kAside; });
    if (model.opset() <= 10 && version > 10) place_pixels(result, model);
    // Up to opset 12 the inputs of Resize are not optional.
    if (version >= 13) internal::drop_empty_inputs(result);
    result.external_files = model.external_files;
    return result;
  } catch (const std::exception& error) {
    throw Error(
        Code::kInvalidInput,
        fmt::format("[prepare] opset {} found, {} wanted; ONNX's converter says: {}; export the model with opset {} "
                    "or newer (`seqto prepare --opset 0` leaves it as it is)",
                    model.opset(), version, error.what(), version));
  }
}

Prepared prepare(const Model& model, const PrepareOptions& options) {
  Prepared result{model, {}};
  auto say = [&](std::string text) { result.actions.push_back(std::move(text)); };
  size_t unnamed = 0;
  for (const Node& node : model.graph.nodes) unnamed += node.name.empty();
  name_nodes(result.model);
  if (unnamed > 0) say(fmt::format("named {} nodes", unnamed));
  if (options.sort_nodes && sort_nodes(result.model)) say("sorted the nodes, some of which read what later ones write");
  if (options.min_opset > 0 && model.opset() > 0 && model.opset() < options.min_opset) {
    result.model = convert_opset(result.model, options.min_opset);
    name_nodes(result.model);
    say(fmt::format("converted opset {} to {}", model.opset(), options.min_opset));
  }
  if (options.lift_constants) {
    int lifted = lift_constants(result.model);
    if (lifted > 0) say(fmt::format("made initializers of {} Constant nodes", lifted));
  }
  if (options.fold_batch_norms) {
    int folded = fold_batch_norms(result.model);
    if (folded > 0)
      say(fmt::format("folded {} nodes (BatchNormalization, Mul, Add of channels) into the layers before", folded));
  }
  if (options.infer_shapes) {
    std::unordered_set<std::string> known;
    for (const ValueInfo& v : result.model.graph.value_info) known.insert(v.name);
    result.model = infer_shapes(result.model);
    const auto more = std::ranges::count_if(result.model.graph.value_info,
                                            [&](const ValueInfo& v) { return !known.contains(v.name); });
    say(fmt::format("inferred the shapes of {} more tensors", more));
  }
  return result;
}

}  // namespace seqto
