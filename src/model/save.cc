#include <deque>

#include "base/files.h"
#include "model/proto.h"
#include "model/sort_nodes.h"
#include "model/varint.h"
#include "seqto/error.h"

namespace seqto {
namespace {

using internal::put_varint;
using internal::varint_size;

// Field numbers of onnx.proto, with wire type 2 (length-delimited).
constexpr char kModelGraph = 7 << 3 | 2;
constexpr char kGraphInitializer = 5 << 3 | 2;
constexpr char kTensorRawData = 9 << 3 | 2;

// A model's bytes as pieces: weights are views of the tensors, so that nothing big is copied.
// Writing the outermost three levels of the wire format ourselves is what saves protobuf's two copies.
struct Pieces {
  std::deque<std::string> owned;
  std::vector<std::string_view> views;
  int64_t size = 0;

  void own(std::string text) {
    owned.push_back(std::move(text));
    view(owned.back());
  }
  void view(std::string_view bytes) {
    views.push_back(bytes);
    size += static_cast<int64_t>(bytes.size());
  }
};

// The fields before the graph and those behind it, by their numbers: OpenVINO takes a file for no model that has a
// field twice, as opset_import, before it has three.
std::pair<std::string, std::string> around_graph(onnx::ModelProto behind) {
  onnx::ModelProto before;
  before.set_ir_version(behind.ir_version()), behind.clear_ir_version();
  if (behind.has_producer_name()) before.set_producer_name(behind.producer_name()), behind.clear_producer_name();
  if (behind.has_producer_version())
    before.set_producer_version(behind.producer_version()), behind.clear_producer_version();
  if (behind.has_domain()) before.set_domain(behind.domain()), behind.clear_domain();
  if (behind.has_model_version()) before.set_model_version(behind.model_version()), behind.clear_model_version();
  if (behind.has_doc_string()) before.set_doc_string(behind.doc_string()), behind.clear_doc_string();
  return {before.SerializeAsString(), behind.SerializeAsString()};
}

Pieces to_pieces(const Model& model) {
  Pieces initializers;
  for (const Initializer& i : model.graph.initializers) {
    std::string head = internal::tensor_head(i).SerializeAsString();
    std::string_view raw;
    if (i.tensor.type() != DataType::kString)
      raw = {reinterpret_cast<const char*>(i.tensor.bytes().data()), i.tensor.bytes().size()};
    size_t data_size = i.tensor.type() == DataType::kString ? 0 : 1 + varint_size(raw.size()) + raw.size();
    std::string text(1, kGraphInitializer);
    put_varint(text, head.size() + data_size);
    text += head;
    if (data_size > 0) {
      text += kTensorRawData;
      put_varint(text, raw.size());
    }
    initializers.own(std::move(text));
    initializers.view(raw);
  }
  std::string graph = internal::graph_head(model).SerializeAsString();
  auto [head, tail] = around_graph(internal::model_head(model));
  head += kModelGraph;
  put_varint(head, graph.size() + static_cast<size_t>(initializers.size));

  Pieces all;
  all.own(std::move(head));
  all.own(std::move(graph));
  for (auto v : initializers.views) all.view(v);
  for (auto& text : initializers.owned) all.owned.push_back(std::move(text));
  all.own(std::move(tail));
  // Short strings live inside their objects: moving them moved the bytes, so the views are taken anew.
  size_t next_owned = 2;
  for (size_t i = 2; i < all.views.size(); i += 2) all.views[i] = all.owned[next_owned++];
  return all;
}

constexpr int64_t kProtobufLimit = (int64_t{1} << 31) - (1 << 20);

// Above protobuf's 2 GB the weights go to one file beside the model. Both are written under temporary names; the old
// model goes before the new weights come, so that no model is ever seen with the weights of another.
void save_external(const Model& model, const std::filesystem::path& path) {
  std::filesystem::path data_path = path;
  data_path += ".data";
  std::vector<std::string_view> pieces;
  static constexpr char kPadding[64] = {};
  onnx::ModelProto proto = internal::model_head(model);
  *proto.mutable_graph() = internal::graph_head(model);
  int64_t offset = 0;
  for (const Initializer& i : model.graph.initializers) {
    onnx::TensorProto* t = proto.mutable_graph()->add_initializer();
    *t = internal::tensor_head(i);
    if (i.tensor.type() == DataType::kString) continue;
    std::string_view raw(reinterpret_cast<const char*>(i.tensor.bytes().data()), i.tensor.bytes().size());
    if (raw.size() < 1024) {
      t->set_raw_data(raw.data(), raw.size());
      continue;
    }
    if (offset % 64) {
      pieces.emplace_back(kPadding, 64 - offset % 64);
      offset += 64 - offset % 64;
    }
    t->set_data_location(onnx::TensorProto::EXTERNAL);
    auto add = [&](const char* key, std::string value) {
      auto* e = t->add_external_data();
      e->set_key(key), e->set_value(std::move(value));
    };
    add("location", data_path.filename().string());
    add("offset", std::to_string(offset));
    add("length", std::to_string(raw.size()));
    pieces.push_back(raw);
    offset += static_cast<int64_t>(raw.size());
  }
  PendingFile data(data_path), head(path);
  for (auto piece : pieces) data.write(piece);
  head.write(internal::serialized(proto));
  std::error_code none_there;
  if (std::filesystem::exists(data_path)) std::filesystem::remove(path, none_there);
  data.commit();
  head.commit();
}

}  // namespace

std::string serialize(const Model& model) {
  Pieces pieces = to_pieces(model);
  std::string bytes;
  bytes.reserve(static_cast<size_t>(pieces.size));
  for (auto v : pieces.views) bytes += v;
  return bytes;
}

int64_t serialized_size(const Model& model) { return to_pieces(model).size; }

void save_model(const Model& model, const std::filesystem::path& path) {
  Pieces pieces = to_pieces(model);
  if (pieces.size < kProtobufLimit) write_file_atomic(path, pieces.views);
  else save_external(model, path);
}

bool equal(const Model& a, const Model& b) {
  const auto &left = a.graph.initializers, &right = b.graph.initializers;
  if (left.size() != right.size() || a.graph.nodes.size() != b.graph.nodes.size()) return false;
  for (size_t i = 0; i < left.size(); ++i)
    if (left[i].name != right[i].name || !left[i].tensor.equals(right[i].tensor)) return false;
  return internal::graph_head(a).SerializeAsString() == internal::graph_head(b).SerializeAsString() &&
         internal::model_head(a).SerializeAsString() == internal::model_head(b).SerializeAsString();
}

DetachedModel serialize_detached(const Model& model, int64_t threshold_bytes) {
  DetachedModel detached;
  onnx::ModelProto proto = internal::model_head(model);
  *proto.mutable_graph() = internal::graph_head(model);
  // A weight that nothing reads is gone when the runtime looks for the others' bytes.
  const auto read = internal::read_names(model.graph);
  for (const Initializer& i : model.graph.initializers) {
    onnx::TensorProto* t = proto.mutable_graph()->add_initializer();
    *t = internal::tensor_head(i);
    if (i.tensor.type() == DataType::kString) continue;
    if (std::ssize(i.tensor.bytes()) < threshold_bytes || !read.contains(i.name)) {
      t->set_raw_data(i.tensor.bytes().data(), i.tensor.bytes().size());
      continue;
    }
    t->set_data_location(onnx::TensorProto::EXTERNAL);
    auto* location = t->add_external_data();
    location->set_key("location"), location->set_value("memory");
    detached.weights.push_back({i.name, i.tensor.aligned()});
  }
  detached.proto = proto.SerializeAsString();
  return detached;
}

}  // namespace seqto
