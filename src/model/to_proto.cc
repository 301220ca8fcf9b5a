#include "model/proto.h"

namespace seqto::internal {
namespace {

void set_attribute(const Attribute& from, onnx::AttributeProto& to) {
  using onnx::AttributeProto;
  if (const auto* opaque = std::get_if<OpaqueAttribute>(&from.value)) {
    to.ParseFromString(opaque->proto);
    to.set_name(from.name);
    return;
  }
  to.set_name(from.name);
  if (const auto* i = std::get_if<int64_t>(&from.value)) {
    to.set_type(AttributeProto::INT), to.set_i(*i);
  } else if (const auto* f = std::get_if<float>(&from.value)) {
    to.set_type(AttributeProto::FLOAT), to.set_f(*f);
  } else if (const auto* s = std::get_if<std::string>(&from.value)) {
    to.set_type(AttributeProto::STRING), to.set_s(*s);
  } else if (const auto* ints = std::get_if<std::vector<int64_t>>(&from.value)) {
    to.set_type(AttributeProto::INTS), to.mutable_ints()->Add(ints->begin(), ints->end());
  } else if (const auto* floats = std::get_if<std::vector<float>>(&from.value)) {
    to.set_type(AttributeProto::FLOATS), to.mutable_floats()->Add(floats->begin(), floats->end());
  } else if (const auto* strings = std::get_if<std::vector<std::string>>(&from.value)) {
    to.set_type(AttributeProto::STRINGS);
    for (const auto& s : *strings) to.add_strings(s);
  } else {
    const Tensor& tensor = std::get<Tensor>(from.value);
    to.set_type(AttributeProto::TENSOR);
    *to.mutable_t() = tensor_head({"", tensor});
    if (tensor.type() != DataType::kString) to.mutable_t()->set_raw_data(tensor.bytes().data(), tensor.bytes().size());
  }
}

void set_node(const Node& from, onnx::NodeProto& to) {
  if (!from.rest.empty()) to.ParseFromString(from.rest);
  for (const auto& name : from.inputs) to.add_input(name);
  for (const auto& name : from.outputs) to.add_output(name);
  if (!from.name.empty()) to.set_name(from.name);
  to.set_op_type(from.op_type);
  if (!from.domain.empty()) to.set_domain(from.domain);
  for (const Attribute& a : from.attributes) set_attribute(a, *to.add_attribute());
}

void set_value_info(const ValueInfo& from, onnx::ValueInfoProto& to) {
  if (!from.proto.empty()) {
    to.ParseFromString(from.proto);
    return;
  }
  to.set_name(from.name);
  if (from.type == DataType::kUndefined) return;
  auto* type = to.mutable_type()->mutable_tensor_type();
  type->set_elem_type(static_cast<int>(from.type));
  if (!from.shape) return;
  auto* shape = type->mutable_shape();
  for (const Dimension& d : *from.shape) {
    auto* dim = shape->add_dim();
    if (d.value >= 0) dim->set_dim_value(d.value);
    else if (!d.parameter.empty()) dim->set_dim_param(d.parameter);
  }
}

}  // namespace

onnx::TensorProto tensor_head(const Initializer& initializer) {
  onnx::TensorProto head;
  const Tensor& tensor = initializer.tensor;
  if (tensor.type() == DataType::kString) {
    head.ParseFromArray(tensor.bytes().data(), static_cast<int>(tensor.bytes().size()));
  } else {
    for (int64_t d : tensor.dims()) head.add_dims(d);
    head.set_data_type(static_cast<int>(tensor.type()));
  }
  if (!initializer.name.empty()) head.set_name(initializer.name);
  return head;
}

onnx::ModelProto model_head(const Model& model) {
  onnx::ModelProto proto;
  if (!model.rest.empty()) proto.ParseFromString(model.rest);
  proto.clear_graph();
  proto.set_ir_version(model.ir_version);
  if (!model.producer_name.empty()) proto.set_producer_name(model.producer_name);
  if (!model.producer_version.empty()) proto.set_producer_version(model.producer_version);
  for (const Opset& o : model.opsets) {
    auto* import = proto.add_opset_import();
    import->set_domain(o.domain);
    import->set_version(o.version);
  }
  for (const auto& [key, value] : model.metadata) {
    auto* entry = proto.add_metadata_props();
    entry->set_key(key), entry->set_value(value);
  }
  return proto;
}

onnx::GraphProto graph_head(const Model& model) {
  onnx::GraphProto graph;
  if (!model.rest.empty()) {
    onnx::ModelProto rest;
    rest.ParseFromString(model.rest);
    if (rest.has_graph()) graph = rest.graph();
  }
  graph.set_name(model.graph.name);
  for (const Node& n : model.graph.nodes) set_node(n, *graph.add_node());
  for (const ValueInfo& v : model.graph.inputs) set_value_info(v, *graph.add_input());
  for (const ValueInfo& v : model.graph.outputs) set_value_info(v, *graph.add_output());
  for (const ValueInfo& v : model.graph.value_info) set_value_info(v, *graph.add_value_info());
  return graph;
}

onnx::ModelProto to_proto(const Model& model, Weights weights) {
  // Shape inference reads small constants (shapes, axes, scales), never a layer's weights.
  constexpr size_t kSmallBytes = 1 << 16;
  onnx::ModelProto proto = model_head(model);
  *proto.mutable_graph() = graph_head(model);
  for (const Initializer& i : model.graph.initializers) {
    onnx::TensorProto* t = proto.mutable_graph()->add_initializer();
    *t = tensor_head(i);
    bool keep = weights == Weights::kAll || i.tensor.bytes().size() <= kSmallBytes;
    if (i.tensor.type() == DataType::kString) continue;
    if (keep) t->set_raw_data(i.tensor.bytes().data(), i.tensor.bytes().size());
    else if (weights == Weights::kSmallElseEmpty) t->clear_dims(), t->add_dims(0), t->set_raw_data("");
  }
  return proto;
}

}  // namespace seqto::internal
