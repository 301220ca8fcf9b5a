#include "model/wire.h"

#include <cstdint>

#include "model/varint.h"

namespace seqto::internal {
namespace {

// Field numbers of onnx.proto.
constexpr uint64_t kModelGraph = 7, kGraphInitializer = 5, kTensorRawData = 9;
constexpr uint64_t kLengthDelimited = 2;

struct Field {
  uint64_t number = 0, wire_type = 0;
  std::string_view whole;    // tag included
  std::string_view payload;  // of a length-delimited one
};

// Walks the fields of one message.
class Fields {
 public:
  explicit Fields(std::string_view message) : rest_(message) {}

  // False at the end and where the bytes make no sense; broken() tells which.
  bool next(Field& field) {
    if (rest_.empty()) return false;
    std::string_view begin = rest_;
    auto tag = get_varint(rest_);
    if (!tag) return fail();
    field = {*tag >> 3, *tag & 7, {}, {}};
    if (field.wire_type == 0) {
      if (!get_varint(rest_)) return fail();
    } else if (field.wire_type == kLengthDelimited) {
      auto length = get_varint(rest_);
      if (!length || *length > rest_.size()) return fail();
      field.payload = rest_.substr(0, *length);
      rest_.remove_prefix(*length);
    } else {
      size_t size = field.wire_type == 1 ? 8 : field.wire_type == 5 ? 4 : 0;
      if (size == 0 || size > rest_.size()) return fail();
      rest_.remove_prefix(size);
    }
    field.whole = begin.substr(0, begin.size() - rest_.size());
    return true;
  }
  bool broken() const { return broken_; }

 private:
  bool fail() {
    broken_ = true;
    return false;
  }
  std::string_view rest_;
  bool broken_ = false;
};

void put_message(std::string& out, uint64_t number, std::string_view payload) {
  put_varint(out, number << 3 | kLengthDelimited);
  put_varint(out, payload.size());
  out += payload;
}

// The tensor without its raw data, which is returned through `raw`.
std::optional<std::string> light_tensor(std::string_view tensor, std::string_view& raw) {
  std::string light;
  Fields fields(tensor);
  for (Field f; fields.next(f);) {
    if (f.number != kTensorRawData) {
      light += f.whole;
    } else {
      if (f.wire_type != kLengthDelimited || raw.data()) return {};
      raw = f.payload;
    }
  }
  if (fields.broken()) return {};
  return light;
}

std::optional<std::string> light_graph(std::string_view graph, size_t threshold, std::vector<std::string_view>& raws) {
  std::string light;
  Fields fields(graph);
  for (Field f; fields.next(f);) {
    if (f.number != kGraphInitializer || f.wire_type != kLengthDelimited) {
      light += f.whole;
      continue;
    }
    raws.emplace_back();
    if (f.payload.size() >= threshold) {
      auto tensor = light_tensor(f.payload, raws.back());
      if (!tensor) return {};
      put_message(light, kGraphInitializer, *tensor);
    } else {
      light += f.whole;
    }
  }
  if (fields.broken()) return {};
  return light;
}

}  // namespace

std::optional<LightModel> without_weights(std::string_view file, size_t threshold) {
  LightModel light;
  bool found = false;
  Fields fields(file);
  for (Field f; fields.next(f);) {
    if (f.number != kModelGraph) {
      light.bytes += f.whole;
      continue;
    }
    // Two graphs are merged by protobuf; nobody writes that.
    if (found || f.wire_type != kLengthDelimited) return {};
    found = true;
    auto graph = light_graph(f.payload, threshold, light.raw_data);
    if (!graph) return {};
    put_message(light.bytes, kModelGraph, *graph);
  }
  if (fields.broken() || !found) return {};
  return light;
}

}  // namespace seqto::internal
