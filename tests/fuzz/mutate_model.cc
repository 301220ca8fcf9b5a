// Flipped bytes seldom leave a ModelProto. Here one field of it is changed: dropped, repeated, moved, given the value
// of another field of its kind, or one from the end of its range.
#include <google/protobuf/message.h>
#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "fuzz/targets.h"

namespace seqto::fuzz {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

struct Place {
  Message* message;
  const FieldDescriptor* field;
  int index;  // -1: not repeated
};

void collect(Message& message, std::vector<Place>& places) {
  const auto& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const bool below = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (!field->is_repeated()) {
      places.push_back({&message, field, -1});
      if (below) collect(*reflection.MutableMessage(&message, field), places);
      continue;
    }
    // Of long lists, as a tensor's values, the first say enough.
    for (int i = 0; i < std::min(reflection.FieldSize(message, field), below ? 1000 : 8); ++i) {
      places.push_back({&message, field, i});
      if (below) collect(*reflection.MutableRepeatedMessage(&message, field, i), places);
    }
  }
}

class Mutation {
 public:
  Mutation(onnx::ModelProto& model, unsigned seed) : random_(seed) { collect(model, places_); }

  void apply() {
    if (places_.empty()) return;
    const Place at = places_[below(places_.size())];
    const auto& reflection = *at.message->GetReflection();
    switch (below(at.index < 0 ? 6 : 10)) {
      case 0:
        return reflection.ClearField(at.message, at.field);
      case 6:
        return reflection.SwapElements(at.message, at.field, at.index, size(at) - 1);
      case 7:
        reflection.SwapElements(at.message, at.field, at.index, size(at) - 1);
        return reflection.RemoveLast(at.message, at.field);
      case 8:
        return add(at);
      default:
        change(at);
    }
  }

 private:
  size_t below(size_t n) { return random_() % n; }
  static int size(const Place& at) { return at.message->GetReflection()->FieldSize(*at.message, at.field); }

  // One more, like the one here.
  void add(const Place& at) {
    const auto& reflection = *at.message->GetReflection();
    if (at.field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      const std::unique_ptr<Message> copy(reflection.GetRepeatedMessage(*at.message, at.field, at.index).New());
      copy->CopyFrom(reflection.GetRepeatedMessage(*at.message, at.field, at.index));
      reflection.AddMessage(at.message, at.field)->CopyFrom(*copy);
    } else if (at.field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      reflection.AddString(at.message, at.field, text(at));
    } else if (at.field->cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
      reflection.AddInt64(at.message, at.field, number());
    }
  }

  void change(const Place& at) {
    const auto& reflection = *at.message->GetReflection();
    const bool one = at.index < 0;
    switch (at.field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE: {
        Message* to = one ? reflection.MutableMessage(at.message, at.field)
                          : reflection.MutableRepeatedMessage(at.message, at.field, at.index);
        const auto others = like(at);
        const Place& from = others[below(others.size())];
        const std::unique_ptr<Message> copy(to->New());  // it may be above or below
        const auto& its = *from.message->GetReflection();
        copy->CopyFrom(from.index < 0 ? its.GetMessage(*from.message, from.field)
                                      : its.GetRepeatedMessage(*from.message, from.field, from.index));
        return to->CopyFrom(*copy);
      }
      case FieldDescriptor::CPPTYPE_STRING:
        return one ? reflection.SetString(at.message, at.field, text(at))
                   : reflection.SetRepeatedString(at.message, at.field, at.index, text(at));
      case FieldDescriptor::CPPTYPE_INT64:
        return one ? reflection.SetInt64(at.message, at.field, number())
                   : reflection.SetRepeatedInt64(at.message, at.field, at.index, number());
      case FieldDescriptor::CPPTYPE_INT32:
        return one ? reflection.SetInt32(at.message, at.field, static_cast<int32_t>(number()))
                   : reflection.SetRepeatedInt32(at.message, at.field, at.index, static_cast<int32_t>(number()));
      case FieldDescriptor::CPPTYPE_ENUM:
        return one ? reflection.SetEnumValue(at.message, at.field, static_cast<int>(below(16))) : void();
      case FieldDescriptor::CPPTYPE_FLOAT: {
        const float kFloats[] = {0, -1, 1e-45F, 3e38F, std::numeric_limits<float>::infinity(), std::nanf("")};
        const float value = kFloats[below(std::size(kFloats))];
        return one ? reflection.SetFloat(at.message, at.field, value)
                   : reflection.SetRepeatedFloat(at.message, at.field, at.index, value);
      }
      default:
        return;
    }
  }

  // Those whose values it can take; itself among them.
  std::vector<Place> like(const Place& at) const {
    std::vector<Place> others;
    for (const Place& other : places_)
      if (other.field->cpp_type() == at.field->cpp_type() && other.field->message_type() == at.field->message_type())
        others.push_back(other);
    return others;
  }

  int64_t number() {
    constexpr int64_t kEnds[] = {-1,
                                 0,
                                 1,
                                 2,
                                 127,
                                 255,
                                 65536,
                                 std::numeric_limits<int32_t>::max(),
                                 std::numeric_limits<int64_t>::max(),
                                 std::numeric_limits<int64_t>::min()};
    return below(2) ? static_cast<int64_t>(below(24)) : kEnds[below(std::size(kEnds))];
  }

  std::string text(const Place& at) {
    const auto& reflection = *at.message->GetReflection();
    std::string old = at.index < 0 ? reflection.GetString(*at.message, at.field)
                                   : reflection.GetRepeatedString(*at.message, at.field, at.index);
    if (at.field->name() == "op_type" && below(2)) {
      static const auto kSchemas = onnx::OpSchemaRegistry::get_all_schemas();
      return kSchemas[below(kSchemas.size())].Name();
    }
    if (at.field->type() == FieldDescriptor::TYPE_BYTES) {
      if (below(4) == 0) old.resize(below(old.size() + 2));
      else if (!old.empty()) old[below(old.size())] = static_cast<char>(below(256));
      return old;
    }
    if (below(8) == 0) return below(2) ? "" : old + "\xff";
    const auto others = like(at);
    const Place& from = others[below(others.size())];
    const auto& its = *from.message->GetReflection();
    return from.index < 0 ? its.GetString(*from.message, from.field)
                          : its.GetRepeatedString(*from.message, from.field, from.index);
  }

  std::mt19937 random_;
  std::vector<Place> places_;
};

}  // namespace

std::string mutate_model(std::string_view bytes, size_t most, unsigned seed) {
  onnx::ModelProto model;
  std::string result(bytes);
  if (!model.ParseFromString(result)) return result;
  // Places are of the model as it was: each change collects them anew.
  for (unsigned change = 0; change < 1 + seed % 3; ++change) Mutation(model, seed + change).apply();
  const std::string changed = model.SerializeAsString();
  return changed.size() <= most ? changed : result;
}

}  // namespace seqto::fuzz
