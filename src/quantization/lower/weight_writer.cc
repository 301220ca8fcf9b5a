// Weights that are only stored: codes and scales in the file, and what makes floats of them. Folded ones are turned
// back by operators that the runtime folds when it loads the model: Cast, Sub where there is a zero point, Mul; before
// them BitShift and Concat that unpack two codes of a byte, behind them Reshape where the weight lies in blocks. Unlike
// DequantizeLinear, which runtimes keep because it marks a quantized layer, they cost no time at run.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "model/op_traits.h"
#include "model/sort_nodes.h"
#include "quantization/improve/graph_edit.h"
#include "quantization/lower/writers.h"

namespace seqto::internal {
namespace {

// Blocks back to the weight's own shape, the padding cut away.
std::string restore(GraphEdit& edit, std::string tensor, const std::string& name, const std::vector<int64_t>& dims,
                    const Cut& cut) {
  if (cut.is_padded()) {
    const Grouping &from = cut.padded, &to = cut.whole;
    bool rows = from.before != to.before;
    std::vector<int64_t> runs = rows ? std::vector{from.outer, from.before, from.channels * from.after}
                                     : std::vector{from.outer * from.channels, from.after};
    tensor = edit.compute("Reshape", {tensor, edit.add_int64s(runs)}, name + "_padded");
    tensor = edit.compute(
        "Slice", {tensor, edit.add_int64s({0}), edit.add_int64s({rows ? to.before : to.after}), edit.add_int64s({1})},
        name + "_whole");
  }
  return edit.compute("Reshape", {tensor, edit.add_int64s(dims)}, name + "_dequantized");
}

// The codes, one byte each, in `shape`.
std::string unpack(GraphEdit& edit, const std::string& name, const StoredWeight& stored,
                   const std::vector<int64_t>& shape) {
  if (stored.bits == 8) return edit.add(name + "_quantized", stored.codes.reshaped(shape));
  std::string packed = edit.add(name + "_packed", stored.codes), four = edit.add_uint8(4);
  std::vector<Attribute> left{{"direction", std::string("LEFT")}}, right{{"direction", std::string("RIGHT")}};
  std::string high = edit.compute("BitShift", {packed, four}, name + "_high", right);
  std::string low = edit.compute("BitShift", {packed, four}, name + "_shifted", left);
  low = edit.compute("BitShift", {low, four}, name + "_low", right);
  std::string codes = edit.compute("Concat", {low, high}, name + "_codes", {{"axis", int64_t{0}}});
  int64_t count = 1;
  for (int64_t d : shape) count *= d;
  if (count % 2)
    codes = edit.compute("Slice", {codes, edit.add_int64s({0}), edit.add_int64s({count}), edit.add_int64s({0})},
                         name + "_even");
  return edit.compute("Reshape", {codes, edit.add_int64s(shape)}, name + "_quantized");
}

std::string add_folded(GraphEdit& edit, const std::string& name, const std::vector<int64_t>& dims,
                       const StoredWeight& stored) {
  const Grouping& b = stored.cut.blocks;
  auto plain = b == stored.cut.whole ? scale_dims(dims, b) : std::nullopt;
  std::vector<int64_t> code_shape = plain ? dims : std::vector{b.outer, b.before, b.channels, b.after};
  std::vector<int64_t> scale_shape = plain ? *plain : std::vector{b.outer, int64_t{1}, b.channels, int64_t{1}};
  std::vector<Attribute> to{{"to", static_cast<int64_t>(stored.scale.type())}};

  std::string tensor = edit.compute("Cast", {unpack(edit, name, stored, code_shape)}, name + "_cast", to);
  if (!stored.zero_point.bytes().empty()) {
    auto shape = stored.zero_point.element_count() == 1 ? std::vector<int64_t>{} : scale_shape;
    std::string zero = edit.add(name + "_zero_point", stored.zero_point.reshaped(shape));
    zero = edit.compute("Cast", {zero}, name + "_zero_cast", to);
    tensor = edit.compute("Sub", {tensor, zero}, name + "_centered");
  }
  std::string scale = edit.add(name + "_scale", stored.scale.reshaped(scale_shape));
  tensor = edit.compute("Mul", {tensor, scale}, name + (plain ? "_dequantized" : "_blocks"));
  return plain ? tensor : restore(edit, tensor, name, dims, stored.cut);
}

class Writer {
 public:
  explicit Writer(const Model& model) : edit_(model) {}

  // Node by node: names are given in their order.
  Model run(const std::vector<EncodedWeight>& weights) {
    std::map<std::pair<size_t, size_t>, std::pair<const EncodedWeight*, const EncodedWeight::Reader*>> reads;
    for (const EncodedWeight& weight : weights)
      for (const auto& reader : weight.readers) reads[{reader.node, reader.input}] = {&weight, &reader};
    std::vector<Node> old = std::move(edit_.nodes());
    edit_.nodes().clear();
    auto next = reads.begin();
    for (size_t i = 0; i < old.size(); ++i) {
      edit_.nodes().push_back(std::move(old[i]));
      for (; next != reads.end() && next->first.first == i; ++next) read(*next->second.first, *next->second.second);
    }
    return edit_.finish();
  }

 private:
  // By the node that was written last.
  void read(const EncodedWeight& weight, const EncodedWeight::Reader& reader) {
    Node& node = edit_.nodes().back();
    auto& names = names_[&weight];
    if (names.empty()) names = written(weight);
    if (is_gather(node) && weight.form == StoredForm::kMatMulNBits) return gather(node, weight, rows(weight, names));
    if (weight.form == StoredForm::kMatMulNBits) return multiply(node, weight, reader, names);
    if (weight.form == StoredForm::kGather) return gather(node, weight, names);
    std::string& input = node.inputs[reader.input];
    if (reader.transposed) edit_.turn(input, names[0]);
    else input = names[0];
  }

  // The tensors that its readers read.
  std::vector<std::string> written(const EncodedWeight& weight) {
    const auto& [name, stored] = std::tie(weight.name, weight.stored);
    switch (weight.form) {
      case StoredForm::kFolded:
        return {add_folded(edit_, name, edit_.constant(name)->dims(), stored)};
      case StoredForm::kFloat16:
        return {edit_.compute("Cast", {edit_.add(name + "_float16", stored.codes)}, name + "_float",
                              {{"to", static_cast<int64_t>(DataType::kFloat)}})};
      case StoredForm::kMatMulNBits:
        return coded(stored, fmt::format("{}_Q{}", name, stored.bits), name);
      case StoredForm::kGather:
        if (stored.bits == 4) edit_.require_ir_version(10);
        return coded(stored, fmt::format("{}_Q{}", name, stored.bits), name);
      case StoredForm::kDequantize:
        edit_.require_ir_version(10);
        return {edit_.compute("DequantizeLinear", coded(stored, name + "_DQ_Q4", name + "_DQ"), name + "_DQ_Q4_output",
                              {{"axis", weight.axis}, {"block_size", weight.block_size}})};
    }
    return {};
  }

  std::vector<std::string> coded(const StoredWeight& stored, const std::string& codes, const std::string& name) {
    std::vector<std::string> names{edit_.add(codes, stored.codes), edit_.add(name + "_scales", stored.scale)};
    if (!stored.zero_point.bytes().empty()) names.push_back(edit_.add(name + "_zero_points", stored.zero_point));
    return names;
  }

  // A Gemm's sum follows its product.
  void multiply(Node& node, const EncodedWeight& weight, const EncodedWeight::Reader& reader,
                const std::vector<std::string>& names) {
    const auto& dims = edit_.constant(weight.name)->dims();
    const auto summed = static_cast<size_t>(weight.axis);
    const Node from = node;
    node.op_type = "MatMulNBits", node.domain = "com.microsoft";
    node.inputs = {from.inputs[0]};
    node.inputs.insert(node.inputs.end(), names.begin(), names.end());
    node.attributes = {{"K", dims[summed]},
                       {"N", dims[1 - summed]},
                       {"bits", int64_t{weight.stored.bits}},
                       {"block_size", weight.block_size}};
    if (reader.accuracy_level != 0) node.attributes.push_back({"accuracy_level", int64_t{reader.accuracy_level}});
    edit_.require_opset("com.microsoft", 1);
    if (from.inputs.size() < 3 || from.inputs[2].empty()) return;
    const std::string product = node.outputs[0] = edit_.fresh(from.outputs[0] + "_product");
    edit_.nodes().push_back(
        {edit_.fresh(from.name + "_bias"), "Add", "", {product, from.inputs[2]}, from.outputs, {}, {}});
  }

  // The codes of a product as a table: an output's blocks one behind the other.
  std::vector<std::string> rows(const EncodedWeight& weight, std::vector<std::string> names) {
    const auto& dims = weight.stored.codes.dims();
    names[0] = edit_.compute("Reshape", {names[0], edit_.add_int64s({dims[0], dims[1] * dims[2]})}, names[0] + "_rows");
    return names;
  }

  void gather(Node& node, const EncodedWeight& weight, const std::vector<std::string>& names) {
    node.inputs = {names[0], node.inputs[1], names[1]};
    if (names.size() > 2) node.inputs.push_back(names[2]);
    node.attributes = {{"gather_axis", node.int_attribute("axis", 0)},
                       {"quantize_axis", weight.axis},
                       {"block_size", weight.block_size}};
    if (weight.stored.codes.type() == DataType::kUint8)
      node.attributes.push_back({"bits", int64_t{weight.stored.bits}});
    node.op_type = "GatherBlockQuantized", node.domain = "com.microsoft";
    edit_.require_opset("com.microsoft", 1);
  }

  GraphEdit edit_;
  std::unordered_map<const EncodedWeight*, std::vector<std::string>> names_;
};

}  // namespace

void write_float_biases(Graph& graph, const Encoding& encoding) {
  std::unordered_map<std::string, const EncodedBias*> written;
  std::unordered_map<LayerId, const EncodedBias*> own;
  for (const EncodedBias& bias : encoding.biases)
    if (bias.is_float) written[bias.name] = own[bias.layer] = &bias;
  if (written.empty()) return;
  std::erase_if(graph.inputs, [&](const ValueInfo& v) { return written.contains(v.name); });
  for (Initializer& i : graph.initializers)
    if (auto it = written.find(i.name); it != written.end()) i.tensor = it->second->values, written.erase(it);
  // Those that are left belong to one layer each.
  for (const EncodedBias& bias : encoding.biases)
    if (written.contains(bias.name)) graph.initializers.push_back({bias.name, bias.values});
  for (Node& node : graph.nodes)
    if (auto it = own.find(node.name); it != own.end() && written.contains(it->second->name)) {
      node.inputs.resize(std::max<size_t>(node.inputs.size(), 3));
      node.inputs[2] = it->second->name;
    }
  drop_unused_initializers(graph);  // a bias that layers shared
}

Model write_weights(const Model& model, const Encoding& encoding) {
  Model result = Writer(model).run(encoding.weights);
  write_float_biases(result.graph, encoding);
  return result;
}

}  // namespace seqto::internal
