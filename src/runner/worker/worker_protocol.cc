#include "runner/worker/worker_protocol.h"

#include <fmt/format.h>

#include <array>
#include <set>

#include "base/base64.h"
#include "model/parse_with.h"

namespace seqto::internal {

using nlohmann::json;

namespace {

constexpr std::array<std::pair<Code, std::string_view>, 4> kCodes{{{Code::kInvalidInput, "invalid_input"},
                                                                   {Code::kUnavailable, "unavailable"},
                                                                   {Code::kInterrupted, "interrupted"},
                                                                   {Code::kInternal, "internal"}}};

void check_size(const Tensor& t) {
  int64_t count = 1;
  for (int64_t d : t.dims())
    if (d < 0 || __builtin_mul_overflow(count, d, &count)) count = -1;
  size_t bits = element_bits(t.type());
  if (t.type() == DataType::kString) return;                                              // its bytes are a TensorProto
  if (t.type() == DataType::kUndefined && t.dims().empty() && t.bytes().empty()) return;  // an output that is no tensor
  if (count >= 0 && bits > 0 && count <= (int64_t{1} << 56) && t.bytes().size() == (count * bits + 7) / 8) return;
  throw Error(Code::kInvalidInput,
              fmt::format("[worker] {} bytes found for a tensor {}{}; as many as its type and dims say were expected",
                          t.bytes().size(), to_string(t.type()), json(t.dims()).dump()));
}

}  // namespace

json tensor_to_json(const Tensor& t, const PutBlob& put) {
  json message{{"type", to_string(t.type())}, {"dims", t.dims()}};
  if (t.bytes().size() <= kInlineBytes) message["base64"] = base64(t.bytes());
  else message["blob"] = put(t);
  return message;
}

Tensor tensor_from_json(const json& message, const GetBlob& get) {
  DataType type = DataType::kUndefined;
  try {
    type = parse_data_type(field<std::string>(message, "type"));
  } catch (const Error& error) {  // a flag's word there, a message's field here
    throw Error(Code::kInvalidInput, error.what());
  }
  auto dims = field<std::vector<int64_t>>(message, "dims");
  Tensor tensor;
  if (message.contains("blob")) {
    Blob blob = get(field<std::string>(message, "blob"));
    tensor = Tensor(type, std::move(dims), std::move(blob.owner), blob.bytes);
  } else {
    auto bytes = from_base64(field<std::string>(message, "base64"));
    if (!bytes) throw Error(Code::kInvalidInput, "[worker] field 'base64' is not base64");
    tensor = Tensor::from(type, std::move(dims), std::move(*bytes));
  }
  check_size(tensor);
  return tensor;
}

json tensors_to_json(std::span<const Tensor> tensors, const PutBlob& put) {
  json list = json::array();
  for (const Tensor& t : tensors) list.push_back(tensor_to_json(t, put));
  return list;
}

std::vector<Tensor> tensors_from_json(const json& list, const GetBlob& get) {
  if (!list.is_array()) throw Error(Code::kInvalidInput, "[worker] a list of tensors was expected");
  std::vector<Tensor> tensors;
  for (const json& t : list) tensors.push_back(tensor_from_json(t, get));
  return tensors;
}

json model_to_json(const Model& model, const PutBlob& put) {
  Model small = model;
  json weights = json::array();
  std::erase_if(small.graph.initializers, [&](const Initializer& i) {
    if (i.tensor.type() == DataType::kString || i.tensor.bytes().size() <= kInlineBytes) return false;
    json weight = tensor_to_json(i.tensor, put);
    weight["name"] = i.name;
    weights.push_back(std::move(weight));
    return true;
  });
  std::string proto = serialize(small);
  auto size = static_cast<int64_t>(proto.size());
  Tensor bytes = Tensor::from(DataType::kUint8, {size}, std::vector<char>(proto.begin(), proto.end()));
  return {{"proto", tensor_to_json(bytes, put)}, {"weights", weights}};
}

Model model_from_json(const json& message, const GetBlob& get) {
  Tensor proto = tensor_from_json(field<json>(message, "proto"), get);
  std::vector<Initializer> weights;
  for (const json& weight : field<json>(message, "weights"))
    weights.push_back({field<std::string>(weight, "name"), tensor_from_json(weight, get)});
  return internal::parse_with({reinterpret_cast<const char*>(proto.bytes().data()), proto.bytes().size()},
                              std::move(weights));
}

json placements_to_json(std::span<const NodePlacement> placements) {
  json nodes = json::array();
  for (const NodePlacement& p : placements)
    nodes.push_back({{"node", p.node}, {"op_type", p.op_type}, {"provider", p.provider}, {"ns", p.ns}});
  return nodes;
}

std::vector<NodePlacement> placements_from_json(const json& message) {
  std::vector<NodePlacement> placements;
  for (const json& node : message)
    placements.push_back({field<std::string>(node, "node"), field<std::string>(node, "op_type"),
                          field<std::string>(node, "provider"), field_or(node, "ns", int64_t{0})});
  return placements;
}

std::string_view to_string(SessionOptions::Optimization optimization) {
  return optimization == SessionOptions::Optimization::kNone ? "none" : "all";
}

SessionOptions::Optimization parse_optimization(const std::string& word) {
  if (word == "none") return SessionOptions::Optimization::kNone;
  if (word == "all") return SessionOptions::Optimization::kAll;
  throw Error(Code::kInvalidInput, fmt::format("[worker] optimization '{}' found; none or all expected", word));
}

json error_to_json(Code code, std::string_view message) {
  std::string_view word = kCodes[0].second;
  for (auto [c, w] : kCodes)
    if (c == code) word = w;
  return {{"code", word}, {"message", message}};
}

Error error_from_json(const json& error) {
  auto word = field<std::string>(error, "code");
  for (auto [c, w] : kCodes)
    if (w == word) return Error(c, field<std::string>(error, "message"));
  return Error(Code::kInternal, field<std::string>(error, "message"));
}

namespace {

void collect_names(const json& message, std::set<std::string>& names) {
  for (const auto& [key, value] : message.items())
    if (value.is_structured()) collect_names(value, names);
    else if (key == "blob" && value.is_string()) names.insert(value.get<std::string>());
}

}  // namespace

std::vector<std::string> blob_names(const json& message) {
  std::set<std::string> names;
  collect_names(message, names);
  return {names.begin(), names.end()};
}

std::string to_line(const BlobHeader& header) { return to_line(json{{"blob", header.name}, {"bytes", header.bytes}}); }

std::optional<BlobHeader> blob_header(const json& message) {
  if (!message.is_object() || !message.contains("blob") || message.contains("id")) return std::nullopt;
  BlobHeader header{field<std::string>(message, "blob"), field<size_t>(message, "bytes")};
  if (!is_blob_name(header.name))
    throw Error(Code::kInvalidInput, fmt::format("[worker] '{:.80}' is no name of a blob", header.name));
  return header;
}

std::string to_line(const json& message) {
  // Names of a broken model may be no UTF-8; a reply that says so is better than none.
  return message.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace seqto::internal
