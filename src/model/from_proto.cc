#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "base/files.h"
#include "model/mapped_values.h"
#include "model/proto.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

// One mapping per file, shared by all tensors that lie in it.
class ExternalFiles {
 public:
  explicit ExternalFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}

  std::vector<std::filesystem::path> paths() const {
    std::vector<std::filesystem::path> all;
    for (const auto& [location, file] : files_) all.push_back(folder_ / location);
    return all;
  }

  std::shared_ptr<const MappedFile> open(const std::string& location, const std::string& tensor) {
    std::filesystem::path relative(location);
    bool escapes = relative.is_absolute() || std::find(relative.begin(), relative.end(), "..") != relative.end();
    if (escapes)
      throw Error(
          Code::kInvalidInput,
          fmt::format("[load] external weights of '{}' lie in '{}'; a file below the model's folder was expected; "
                      "save the model again",
                      tensor, location));
    auto& file = files_[location];
    if (!file && !std::filesystem::exists(folder_ / relative)) {
      const std::filesystem::path folder = folder_.empty() ? "." : folder_;
      throw Error(Code::kInvalidInput, fmt::format("[load] no such file as {}, which holds the weights of '{}': it was "
                                                   "expected in {}, beside the model; copy it there, under this name",
                                                   location, tensor, folder.string()));
    }
    if (!file) file = std::make_shared<MappedFile>(folder_ / relative);
    return file;
  }

 private:
  std::filesystem::path folder_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

[[noreturn]] void bad_tensor(const std::string& name, const std::string& what) {
  throw Error(Code::kInvalidInput,
              fmt::format("[load] tensor '{}': {}; the file is damaged, export the model again", name, what));
}

int64_t byte_size(DataType type, int64_t count) { return (count * static_cast<int64_t>(element_bits(type)) + 7) / 8; }

template <class To, class From>
Tensor narrowed(DataType type, std::vector<int64_t> dims, const From& field) {
  return Tensor::from(type, std::move(dims), std::vector<To>(field.begin(), field.end()));
}

Tensor typed_data(const onnx::TensorProto& t, DataType type, std::vector<int64_t> dims) {
  switch (type) {
    case DataType::kFloat:
      return narrowed<float>(type, std::move(dims), t.float_data());
    case DataType::kDouble:
      return narrowed<double>(type, std::move(dims), t.double_data());
    case DataType::kInt64:
      return narrowed<int64_t>(type, std::move(dims), t.int64_data());
    case DataType::kUint64:
      return narrowed<uint64_t>(type, std::move(dims), t.uint64_data());
    case DataType::kUint32:
      return narrowed<uint32_t>(type, std::move(dims), t.uint64_data());
    case DataType::kInt32:
      return narrowed<int32_t>(type, std::move(dims), t.int32_data());
    case DataType::kInt16:
      return narrowed<int16_t>(type, std::move(dims), t.int32_data());
    case DataType::kUint16:
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return narrowed<uint16_t>(type, std::move(dims), t.int32_data());
    default:
      return narrowed<uint8_t>(type, std::move(dims), t.int32_data());
  }
}

Tensor in_file(DataType type, std::vector<int64_t> dims, std::shared_ptr<const MappedFile> file,
               std::span<const std::byte> bytes) {
  // Not make_shared(): the deleter tells whoever has only the lifetime() of a tensor that its values are mapped.
  return Tensor::in_file(type, std::move(dims), std::make_unique<const MappedValues>(std::move(file), bytes), bytes);
}

size_t bytes_of_entry(const onnx::TensorProto& t, const onnx::StringStringEntryProto& entry) {
  const std::string& text = entry.value();
  size_t bytes = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, bytes);
  if (error != std::errc() || stop != end)
    bad_tensor(t.name(),
               fmt::format("the {} '{}' of external data found; a number of bytes expected", entry.key(), text));
  return bytes;
}

// `expected` bytes, where no length is told.
Tensor external_data(const onnx::TensorProto& t, DataType type, std::vector<int64_t> dims, size_t expected,
                     ExternalFiles& files) {
  std::string location;
  size_t offset = 0, length = expected;
  for (const auto& entry : t.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset = bytes_of_entry(t, entry);
    if (entry.key() == "length") length = bytes_of_entry(t, entry);
  }
  auto file = files.open(location, t.name());
  auto bytes = file->bytes();
  if (offset > bytes.size() || length > bytes.size() - offset)
    bad_tensor(t.name(), fmt::format("bytes {}..{} of '{}' found missing, the file has {}", offset, offset + length,
                                     location, bytes.size()));
  return in_file(type, std::move(dims), std::move(file), bytes.subspan(offset, length));
}

// Dimensions of 0 are left out of what is checked: whoever multiplies some of them only shall not go too far, either.
int64_t checked_count(const std::vector<int64_t>& dims, const std::string& name) {
  int64_t others = 1;
  bool empty = false;
  for (int64_t d : dims) {
    if (d < 0 || (d > 0 && others > (int64_t{1} << 48) / d)) bad_tensor(name, "impossible dimensions");
    if (d == 0) empty = true;
    else others *= d;
  }
  return empty ? 0 : others;
}

// `raw`: the bytes where they were not read with the proto.
Tensor tensor_from(onnx::TensorProto& t, ExternalFiles& files, const std::shared_ptr<const MappedFile>& file = nullptr,
                   std::string_view raw = {}) {
  auto type = static_cast<DataType>(t.data_type());
  std::vector<int64_t> dims(t.dims().begin(), t.dims().end());
  int64_t count = checked_count(dims, t.name());
  if (type == DataType::kUndefined || !onnx::TensorProto_DataType_IsValid(t.data_type()))
    bad_tensor(t.name(), fmt::format("the type {} found, which is none of ONNX's", t.data_type()));
  Tensor result;
  if (type == DataType::kString) {
    if (t.data_location() == onnx::TensorProto::EXTERNAL)
      bad_tensor(t.name(), "strings in external data found; strings inside the model expected");
    auto whole = std::make_shared<std::string>(t.SerializeAsString());
    return Tensor(type, std::move(dims), whole, std::as_bytes(std::span(whole->data(), whole->size())));
  }
  if (t.data_location() == onnx::TensorProto::EXTERNAL) {
    result = external_data(t, type, dims, static_cast<size_t>(byte_size(type, count)), files);
  } else if (raw.data()) {
    result = in_file(type, dims, file, std::as_bytes(std::span(raw)));
  } else if (t.has_raw_data()) {
    auto raw = std::make_shared<std::string>();
    raw->swap(*t.mutable_raw_data());
    result = Tensor(type, dims, raw, std::as_bytes(std::span(raw->data(), raw->size())));
  } else {
    result = typed_data(t, type, dims);
  }
  if (static_cast<int64_t>(result.bytes().size()) != byte_size(type, count))
    bad_tensor(t.name(), fmt::format("{} bytes found, {} expected", result.bytes().size(), byte_size(type, count)));
  return result;
}

// Outer tensors that a subgraph reads: names used before anything inside defines them.
class Captures {
 public:
  explicit Captures(std::vector<std::string>& found) : found_(found) {}

  void collect(const onnx::GraphProto& graph) {
    std::vector<std::string_view> own;
    auto define = [&](std::string_view name) {
      if (known_.insert(name).second) own.push_back(name);
    };
    for (const auto& v : graph.input()) define(v.name());
    for (const auto& v : graph.initializer()) define(v.name());
    for (const auto& node : graph.node()) {
      for (const auto& name : node.input()) use(name);
      for (const auto& a : node.attribute()) {
        if (a.has_g()) collect(a.g());
        for (const auto& g : a.graphs()) collect(g);
      }
      for (const auto& name : node.output()) define(name);
    }
    for (const auto& v : graph.output()) use(v.name());
    for (std::string_view name : own) known_.erase(name);
  }

 private:
  void use(const std::string& name) {
    if (!name.empty() && !known_.contains(name) && captured_.insert(name).second) found_.push_back(name);
  }

  std::vector<std::string>& found_;
  std::unordered_set<std::string_view> known_, captured_;  // known: here and in the graphs around
};

// Before version 4 every initializer had to be an input, and was constant nevertheless; from 4 on it would not be.
void to_version_4(Model& model) {
  std::unordered_set<std::string_view> initializers;
  for (const Initializer& i : model.graph.initializers) initializers.insert(i.name);
  std::erase_if(model.graph.inputs, [&](const ValueInfo& v) { return initializers.contains(v.name); });
  model.ir_version = 4;
}

// A subgraph is kept as bytes, which the folder of its external weights is not part of: they are brought inside.
void bring_inside(onnx::GraphProto& graph, ExternalFiles& files) {
  auto bring = [&](onnx::TensorProto& t) {
    if (t.data_location() != onnx::TensorProto::EXTERNAL) return;
    const Tensor tensor = tensor_from(t, files);
    t.set_raw_data(tensor.bytes().data(), tensor.bytes().size());
    t.clear_external_data(), t.clear_data_location();
  };
  for (auto& t : *graph.mutable_initializer()) bring(t);
  for (auto& node : *graph.mutable_node())
    for (auto& a : *node.mutable_attribute()) {
      if (a.has_t()) bring(*a.mutable_t());
      if (a.has_g()) bring_inside(*a.mutable_g(), files);
      for (auto& g : *a.mutable_graphs()) bring_inside(g, files);
    }
}

Attribute attribute_from(onnx::AttributeProto& a, ExternalFiles& files) {
  using onnx::AttributeProto;
  switch (a.type()) {
    case AttributeProto::INT:
      return {a.name(), a.i()};
    case AttributeProto::FLOAT:
      return {a.name(), a.f()};
    case AttributeProto::STRING:
      return {a.name(), a.s()};
    case AttributeProto::INTS:
      return {a.name(), std::vector<int64_t>(a.ints().begin(), a.ints().end())};
    case AttributeProto::FLOATS:
      return {a.name(), std::vector<float>(a.floats().begin(), a.floats().end())};
    case AttributeProto::STRINGS:
      return {a.name(), std::vector<std::string>(a.strings().begin(), a.strings().end())};
    case AttributeProto::TENSOR:
      return {a.name(), tensor_from(*a.mutable_t(), files)};
    default:
      break;
  }
  if (a.has_g()) bring_inside(*a.mutable_g(), files);
  for (auto& g : *a.mutable_graphs()) bring_inside(g, files);
  return {a.name(), opaque_attribute(a)};
}

Node node_from(onnx::NodeProto& n, ExternalFiles& files) {
  Node node;
  node.name = n.name();
  node.op_type = n.op_type();
  node.domain = n.domain() == "ai.onnx" ? "" : n.domain();
  node.inputs.assign(n.input().begin(), n.input().end());
  node.outputs.assign(n.output().begin(), n.output().end());
  for (auto& a : *n.mutable_attribute()) node.attributes.push_back(attribute_from(a, files));
  n.clear_name(), n.clear_op_type(), n.clear_domain(), n.clear_input(), n.clear_output(), n.clear_attribute();
  node.rest = n.SerializeAsString();
  return node;
}

ValueInfo value_info_from(const onnx::ValueInfoProto& v) {
  ValueInfo info;
  info.name = v.name();
  info.proto = v.SerializeAsString();
  if (!v.type().has_tensor_type()) return info;
  const auto& type = v.type().tensor_type();
  info.type = static_cast<DataType>(type.elem_type());
  if (!type.has_shape()) return info;
  info.shape.emplace();
  for (const auto& d : type.shape().dim()) {
    // PaddlePaddle's exporter writes -1 for an open size, from which ONNX infers sizes that are no sizes.
    if (d.has_dim_value() && d.dim_value() < 0) info.proto.clear();
    info.shape->push_back({d.has_dim_value() ? std::max<int64_t>(d.dim_value(), -1) : -1, d.dim_param()});
  }
  return info;
}

// Of several of one name the runtime takes the first.
void drop_overruled(std::vector<Initializer>& initializers) {
  std::unordered_set<std::string> seen;
  std::erase_if(initializers, [&](const Initializer& i) { return !seen.insert(i.name).second; });
}

}  // namespace

Initializer initializer_from(onnx::TensorProto proto) {
  if (proto.data_location() == onnx::TensorProto::EXTERNAL)
    bad_tensor(proto.name(), "values in another file found; the tensor's own were expected");
  ExternalFiles none{{}};
  std::string name = proto.name();
  return {std::move(name), tensor_from(proto, none)};
}

std::string serialized(const google::protobuf::MessageLite& message) {
  constexpr size_t kMost = size_t{1} << 31;  // of protobuf
  if (message.ByteSizeLong() >= kMost)
    throw Error(Code::kInvalidInput,
                fmt::format("[model] {} bytes of graph and of weights inside If, Loop or Scan found; less than 2 GB "
                            "expected; export the model with its weights outside of them",
                            message.ByteSizeLong()));
  return message.SerializeAsString();
}

OpaqueAttribute opaque_attribute(const onnx::AttributeProto& proto) {
  OpaqueAttribute opaque{serialized(proto), {}};
  Captures captures(opaque.captures);
  if (proto.has_g()) captures.collect(proto.g());
  for (const auto& g : proto.graphs()) captures.collect(g);
  return opaque;
}

Model from_proto(onnx::ModelProto proto, const Outside& outside) {
  ExternalFiles files(outside.folder);
  std::unordered_map<std::string, const Tensor*> left_out;
  if (outside.left_out)
    for (const Initializer& i : outside.left_out->graph.initializers) left_out[i.name] = &i.tensor;
  Model model;
  model.ir_version = proto.ir_version();
  model.producer_name = proto.producer_name();
  model.producer_version = proto.producer_version();
  for (const auto& o : proto.opset_import()) model.opsets.push_back({o.domain(), o.version()});
  for (const auto& m : proto.metadata_props()) model.metadata.emplace_back(m.key(), m.value());
  onnx::GraphProto& g = *proto.mutable_graph();
  model.graph.name = g.name();
  for (auto& n : *g.mutable_node()) model.graph.nodes.push_back(node_from(n, files));
  size_t next = 0;
  for (auto& t : *g.mutable_initializer()) {
    auto known = t.has_raw_data() ? left_out.end() : left_out.find(t.name());
    std::string_view raw = next < outside.raw_data.size() ? outside.raw_data[next] : std::string_view();
    ++next;
    model.graph.initializers.push_back(
        {t.name(), known != left_out.end() ? *known->second : tensor_from(t, files, outside.file, raw)});
  }
  drop_overruled(model.graph.initializers);
  for (const auto& v : g.input()) model.graph.inputs.push_back(value_info_from(v));
  if (model.ir_version > 0 && model.ir_version < 4) to_version_4(model);
  for (const auto& v : g.output()) model.graph.outputs.push_back(value_info_from(v));
  for (const auto& v : g.value_info()) model.graph.value_info.push_back(value_info_from(v));

  model.external_files = files.paths();
  g.clear_name(), g.clear_node(), g.clear_initializer(), g.clear_input(), g.clear_output(), g.clear_value_info();
  proto.clear_ir_version(), proto.clear_producer_name(), proto.clear_producer_version();
  proto.clear_opset_import(), proto.clear_metadata_props();
  if (g.ByteSizeLong() == 0) proto.clear_graph();
  model.rest = proto.SerializeAsString();
  return model;
}

}  // namespace seqto::internal
