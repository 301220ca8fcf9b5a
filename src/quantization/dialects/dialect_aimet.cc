// AIMET's encodings.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "model/op_traits.h"
#include "quantization/dialects/dialects.h"
#include "quantization/read/layer_form.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

using nlohmann::json;

std::optional<DataType> integer_type(int64_t bits, bool is_signed) {
  switch (bits) {
    case 4:
      return is_signed ? DataType::kInt4 : DataType::kUint4;
    case 8:
      return is_signed ? DataType::kInt8 : DataType::kUint8;
    case 16:
      return is_signed ? DataType::kInt16 : DataType::kUint16;
    default:
      return std::nullopt;  // biases of 32 bits follow from the scales of input and weight
  }
}

// "int8", "uint16" ...; nothing for floats and for biases.
std::optional<DataType> type_named(const std::string& name) {
  for (const int64_t bits : {4, 8, 16})
    for (const bool is_signed : {false, true})
      if (name == fmt::format("{}int{}", is_signed ? "" : "u", bits)) return integer_type(bits, is_signed);
  return std::nullopt;
}

bool truth(const json& value) { return value.is_boolean() ? value.get<bool>() : value == "True" || value == "true"; }

TensorOverride entry_of(DataType type, double scale, int64_t zero_point) {
  TensorOverride entry;
  entry.quant_type = type;
  entry.scale = static_cast<float>(scale);
  entry.zero_point = static_cast<int32_t>(zero_point);
  return entry;
}

// Up to 1.0.0 offsets are those of unsigned codes, whatever the sign: code = value / scale - offset.
int64_t zero_point_of(double offset, int64_t bits, bool is_signed) {
  return -static_cast<int64_t>(offset) - (is_signed ? int64_t{1} << (bits - 1) : 0);
}

// A number, or a list of them; deeper lists are blocks.
std::vector<double> numbers(const json& value) {
  return value.is_array() ? value.get<std::vector<double>>() : std::vector<double>{value.get<double>()};
}

class Reader {
 public:
  explicit Reader(const json& file) {
    if (file.contains("encodings")) {
      for (const json& entry : file.at("encodings")) read_2(entry);
      return;
    }
    for (const char* key : {"activation_encodings", "param_encodings"}) {
      const json part = file.value(key, json::object());
      if (part.is_array()) {
        for (const json& entry : part) read_1(entry);
      } else {
        for (const auto& [tensor, entries] : part.items()) read_0(tensor, entries);
      }
    }
  }

  TensorOverrides encodings;
  std::vector<std::string> notes;

 private:
  void read_0(const std::string& tensor, const json& entries) {
    std::vector<TensorOverride> list;
    for (const json& entry : entries) {
      const auto bits = entry.at("bitwidth").get<int64_t>();
      if (entry.value("dtype", "int") != "int") return;
      const bool is_signed = truth(entry.value("is_symmetric", json(false)));
      const auto type = integer_type(bits, is_signed);
      if (!type) return;
      list.push_back(entry_of(*type, entry.at("scale"), zero_point_of(entry.at("offset"), bits, is_signed)));
    }
    if (!list.empty()) encodings[tensor] = std::move(list);
  }

  void read_1(const json& entry) {
    const auto tensor = entry.at("name").get<std::string>();
    const std::string kind = entry.value("enc_type", "PER_TENSOR");
    if (kind != "PER_TENSOR" && kind != "PER_CHANNEL") return blocks(tensor);
    if (entry.at("dtype") != "INT") return;
    const auto bits = entry.at("bw").get<int64_t>();
    const bool is_signed = truth(entry.value("is_sym", json(false)));
    const auto type = integer_type(bits, is_signed);
    if (!type) return;
    std::vector<int64_t> zero_points;
    for (const double offset : numbers(entry.at("offset")))
      zero_points.push_back(zero_point_of(offset, bits, is_signed));
    add(tensor, *type, numbers(entry.at("scale")), zero_points);
  }

  void read_2(const json& entry) {
    const auto tensor = entry.at("name").get<std::string>();
    const auto type_name = entry.at("output_dtype").get<std::string>();
    if (entry.contains("block_size") || entry.contains("per_block_int_scale")) return blocks(tensor);
    const std::optional<DataType> type = type_named(type_name);
    if (!type) return;
    const std::vector<double> scales = numbers(entry.at("y_scale"));
    std::vector<int64_t> zero_points(scales.size(), 0);
    if (entry.contains("y_zero_point") && !entry["y_zero_point"].is_null()) {
      zero_points.clear();
      for (const double z : numbers(entry["y_zero_point"])) zero_points.push_back(static_cast<int64_t>(z));
    }
    add(tensor, *type, scales, zero_points);
    if (entry.contains("axis") && scales.size() > 1) encodings[tensor].front().axis = entry["axis"].get<int64_t>();
  }

  void add(const std::string& tensor, DataType type, const std::vector<double>& scales,
           const std::vector<int64_t>& zero_points) {
    if (scales.empty() || scales.size() != zero_points.size())
      throw Error(
          Code::kInvalidInput,
          fmt::format("[plan] the encoding of '{}' with {} scales and {} offsets found; as many of each expected",
                      tensor, scales.size(), zero_points.size()));
    auto& list = encodings[tensor];
    list.clear();
    for (size_t i = 0; i < scales.size(); ++i) list.push_back(entry_of(type, scales[i], zero_points[i]));
  }

  void blocks(const std::string& tensor) {
    notes.push_back(fmt::format("the blockwise encoding of '{}' is not taken over", tensor));
  }
};

// Which layers a set of encodings quantizes.
class Layout {
 public:
  Layout(const Model& model, TensorOverrides& encodings) : index_(model), encodings_(encodings) {}

  Scheme scheme_of(const Node& node) {
    bool activations = true, weights = true, has_weights = false;
    int activation_bits = 8, weight_bits = 8;
    for (const size_t i : data_inputs(node)) {
      const std::string& tensor = node.inputs[i];
      if (!index_.is_float(tensor)) continue;
      const int bits = bits_of(tensor);
      if (index_.constant(tensor) || index_.is_initializer(tensor)) {
        has_weights = true;
        weights &= bits > 0;
        if (bits > 0) weight_bits = bits;
        if (bits > 0 && i == 1) give_axis(node, tensor);
      } else {
        activations &= bits > 0;
        activation_bits = std::max(activation_bits, bits);
      }
    }
    if (activations && weights && (!node.outputs.empty() && quantized_behind(node.outputs[0])))
      return activation_bits > 8 ? Scheme::kInt8wInt16a : Scheme::kInt8;
    if (!has_weights || !weights) return Scheme::kFloat32;
    if (weight_bits > 8) {
      notes.push_back(
          fmt::format("layer '{}' stays float: its weight alone has an encoding, of {} bits; weights alone "
                      "are stored in 8 or 4",
                      node.name, weight_bits));
      return Scheme::kFloat32;
    }
    return weight_bits == 4 ? Scheme::kInt4Weights : Scheme::kInt8Weights;
  }

  // An output of the graph that `node` writes in codes, though no encoding names it.
  bool writes_unnamed_output(const Node& node) const {
    return index_.outputs.contains(node.outputs[0]) && bits_of(node.outputs[0]) == 0 && !moved_on(node.outputs[0]);
  }

  std::vector<std::string> notes;

 private:
  // Of the tensor's encoding, or of that of the tensor whose values it moves; 0: float.
  int bits_of(const std::string& tensor, int depth = 0) const {
    if (const auto it = encodings_.find(tensor); it != encodings_.end())
      return static_cast<int>(element_bits(*it->second.front().quant_type));
    const Node* producer = index_.edges.producer(tensor);
    if (producer && depth < 32 && has(*producer, kDataMovement) && !producer->inputs.empty())
      return bits_of(producer->inputs[0], depth + 1);
    return bits_behind_clip(tensor);
  }

  // AIMET gives a layer and the Relu behind it one encoding, the Relu's.
  int bits_behind_clip(const std::string& tensor) const {
    const auto& readers = index_.edges.readers(tensor);
    if (readers.size() != 1 || !has(*readers[0], kClips) || readers[0]->outputs.empty()) return 0;
    const auto encoding = encodings_.find(readers[0]->outputs[0]);
    return encoding == encodings_.end() ? 0 : static_cast<int>(element_bits(*encoding->second.front().quant_type));
  }

  // The output has an encoding, or goes on through what moves data to one, or is left to the reader.
  bool quantized_behind(const std::string& tensor) const {
    return bits_of(tensor) > 0 || index_.outputs.contains(tensor) || moved_on(tensor);
  }
  bool moved_on(const std::string& tensor, int depth = 0) const {
    const auto& readers = index_.edges.readers(tensor);
    return !readers.empty() && depth <= 32 && std::ranges::all_of(readers, [&](const Node* reader) {
      return has(*reader, kDataMovement) && !reader->outputs.empty() &&
             (encodings_.contains(reader->outputs[0]) || moved_on(reader->outputs[0], depth + 1));
    });
  }

  // 1.0.0 and older do not say which axis the channels are.
  void give_axis(const Node& node, const std::string& weight) {
    const auto found = encodings_.find(weight);
    if (found == encodings_.end() || found->second.size() < 2 || found->second.front().axis) return;
    const auto initializer = index_.initializers.find(weight);
    const size_t rank = initializer == index_.initializers.end() ? 2 : initializer->second->dims().size();
    found->second.front().axis = static_cast<int64_t>(output_axis(node, rank).value_or(0));
  }

  GraphView index_;
  TensorOverrides& encodings_;
};

}  // namespace

ForeignPlan read_aimet(const json& file, const Model& model) {
  Reader reader(file);
  ForeignPlan result{{}, std::move(reader.encodings), std::move(reader.notes)};
  if (const auto excluded = file.find("excluded_layers"); excluded != file.end() && !excluded->empty())
    result.notes.push_back(
        fmt::format("{} excluded layers named; what has no encoding is float anyway", excluded->size()));
  Layout layout(model, result.encodings);
  const std::vector<Layer> all = layers(model);
  int weights_alone = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const Node& node = model.graph.nodes[i];
    const Scheme scheme = layout.scheme_of(node);
    if (scheme == Scheme::kFloat32 || std::ranges::count(all[i].schemes, scheme) == 0) continue;
    result.plan.schemes[all[i].id] = scheme;
    if (!is_static(scheme)) ++weights_alone;
    else if (layout.writes_unnamed_output(node))
      layout.notes.push_back(
          fmt::format("the output '{}' has no encoding; layer '{}' writes it in codes all the same, "
                      "whose range is that of the samples",
                      node.outputs[0], node.name));
  }
  std::ranges::move(layout.notes, std::back_inserter(result.notes));
  if (weights_alone > 0)
    result.notes.push_back(
        fmt::format("the scales of {} layers' weights are not taken over: where weights alone have "
                    "encodings, their scales are computed anew",
                    weights_alone));
  return result;
}

PlanText write_aimet(const ForeignPlan& plan, const Model&) {
  const auto is_whole = [](const TensorOverride& o) { return o.quant_type && o.scale && o.zero_point; };
  nlohmann::ordered_json list = json::array();
  std::vector<std::string> notes;
  for (const auto& [tensor, entries] : plan.encodings) {
    if (entries.empty() || !std::ranges::all_of(entries, is_whole)) {
      notes.push_back(fmt::format("'{}' has no encoding there: its type, scale or zero point is not given", tensor));
      continue;
    }
    nlohmann::ordered_json entry{{"name", tensor}, {"output_dtype", to_string(*entries.front().quant_type)}};
    if (entries.size() == 1) {
      entry["y_scale"] = *entries[0].scale;
      entry["y_zero_point"] = *entries[0].zero_point;
    } else {
      for (const TensorOverride& channel : entries) {
        entry["y_scale"].push_back(*channel.scale);
        entry["y_zero_point"].push_back(*channel.zero_point);
      }
      entry["axis"] = entries.front().axis.value_or(0);
    }
    list.push_back(std::move(entry));
  }
  if (list.empty())
    throw Error(
        Code::kUsage,
        "[plan] a plan without scales found; AIMET's encodings hold a scale for each tensor; name the quantized "
        "model with --quantized");
  return {nlohmann::ordered_json{{"version", "2.0.0"}, {"encodings", list}}.dump(1) + "\n", std::move(notes)};
}

}  // namespace seqto::internal
