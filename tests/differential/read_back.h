// What a written file holds otherwise than its encoding says, as src/quantization/read finds it in the file: nothing
// where read(lower(e)) == e.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "model/graph_view.h"
#include "model/op_traits.h"
#include "model/sort_nodes.h"
#include "quantization/arithmetic/stored_weights.h"
#include "quantization/encode/encoding.h"
#include "quantization/improve/coded_layers.h"
#include "quantization/read/dequantizer.h"
#include "seqto/error.h"

namespace seqto::internal {

// Some other codes and biases, of layers that can have them.
inline Corrections other_codes(Encoding encoding, const Model& model) {
  const GraphView view(model);
  EncodedLayers layers(encoding, model, view);
  Corrections other;
  for (const Node& node : layers.nodes()) {
    const auto codes = layers.codes_of(node);
    if (!codes) continue;
    const CodedWeight& weight = codes->weight;
    std::vector<int32_t> values = weight.unpacked();
    for (size_t i = 0; i < values.size(); i += 3)
      values[i] = values[i] == weight.lowest ? weight.highest : weight.lowest;
    other.rounding[layer_of(node)] = {weight.packed(values), weight.scale, weight.zero_point, {}};
    if (const auto layout = weight_layout(node, weight.dims))
      other.shifts[layer_of(node)].assign(static_cast<size_t>(layout->outputs), 0.5f);
  }
  return other;
}

class ReadBack {
 public:
  ReadBack(const Encoding& encoding, const Model& file)
      : encoding_(encoding), file_(sorted(file)), view_(file_), reader_(file_) {
    for (const Node& n : file_.graph.nodes)
      for (const Attribute& a : n.attributes) has_bodies_ |= std::holds_alternative<OpaqueAttribute>(a.value);
    try {
      twin_ = reader_.run();
    } catch (const Error&) {  // an operator without float form; what codes mean is known all the same
    }
  }

  std::vector<std::string> unlike() {
    for (const EncodedTensor& t : encoding_.tensors) check(t);
    for (const EncodedBias& b : encoding_.biases) check(b);
    if (twin_)
      for (const EncodedWeight& w : encoding_.weights) check(w);
    return std::move(unlike_);
  }

 private:
  void expect(bool holds, const std::string& tensor, const char* what) {
    if (!holds) unlike_.push_back(tensor + ": " + what);
  }

  static bool same_values(const Tensor* stored, const Tensor& expected) {
    if (!stored || stored->type() != expected.type() || stored->element_count() != expected.element_count())
      return false;
    return std::ranges::equal(stored->bytes(), expected.bytes());
  }

  void check_params(const std::string& codes, const TensorNames& names, const QuantParams& params, DataType type) {
    auto it = reader_.codings().find(codes);
    const Coded coded = it != reader_.codings().end() ? it->second : Coded{names.codes, names.scale, names.zero_point};
    const auto count = static_cast<int64_t>(params.scale.size());
    expect(same_values(view_.constant(coded.scale), scale_tensor(params.scale, {count}, type)), codes, "scale");
    const Tensor* zero_point = view_.constant(coded.zero_point);
    expect(same_values(zero_point, zero_point_tensor(params, {count})), codes, "zero point");
    for (const Node* reader : view_.edges.readers(codes))
      if (is_dequantize(*reader) && params.axis)
        expect(reader->int_attribute("axis", 1) == *params.axis, codes, "axis");
  }

  void check(const EncodedTensor& t) {
    const bool operators = !t.names.codes.empty();
    if (operators && has_bodies_ && !view_.constant(t.names.scale)) return;  // written inside one
    std::string codes = t.names.codes;
    for (const char* suffix : {"_quantized", "_QuantizeLinear_Output", "_QuantizeLinear_Output_1"})
      if (codes.empty() && !view_.edges.readers(t.name + suffix).empty()) codes = t.name + suffix;
    if (codes.empty()) return expect(false, t.name, "codes");
    check_params(codes, t.names, t.params, t.float_type);
    if (t.codes) expect(same_values(view_.constant(codes), *t.codes), t.name, "constant");
    if (t.converted) check_params(t.name + "_convert_QuantizeLinear_Output", {}, *t.converted, t.float_type);
  }

  void check(const EncodedBias& b) {
    const bool operators = !b.names.codes.empty();
    if (operators && has_bodies_ && !view_.constant(b.names.codes)) return;
    const std::string codes = operators ? b.names.codes : b.is_float ? b.name : b.name + "_quantized";
    expect(same_values(view_.constant(codes), b.values), b.name, "bias");
    auto it = reader_.codings().find(codes);
    if (b.is_float || it == reader_.codings().end()) return;
    const auto count = static_cast<int64_t>(b.scale.size());
    expect(same_values(view_.constant(it->second.scale), scale_tensor(b.scale, {count}, b.float_type)), b.name,
           "scale of a bias");
  }

  // Its twin holds the values that the codes stand for.
  void check(const EncodedWeight& w) {
    const Tensor values = restored(w);
    expect(std::ranges::any_of(twin_->model.graph.initializers,
                               [&](const Initializer& i) { return same_values(&i.tensor, values); }),
           w.name, "values of a stored weight");
  }

  Tensor restored(const EncodedWeight& w) const {
    const StoredWeight& s = w.stored;
    const Tensor middle = Tensor::from(DataType::kUint8, {}, std::vector{uint8_t{128}});
    const Tensor* zero = s.zero_point.bytes().empty() ? nullptr : &s.zero_point;
    if (!zero && w.form == StoredForm::kGather && s.bits == 8) zero = &middle;
    if (w.form == StoredForm::kFloat16) return float_tensor(s.codes.dims(), to_floats(s.codes));
    if (w.form == StoredForm::kFolded) return unfolded(s);
    if (w.form != StoredForm::kMatMulNBits) return dequantized(s.codes, {&s.scale, zero, w.axis, w.block_size});
    Node node;
    for (const Node& n : file_.graph.nodes)
      if (is_nbits(n) && same_values(view_.constant(n.inputs[1]), s.codes)) node = n;
    return unpacked_nbits(node, s.codes, s.scale, zero);
  }

  // Folded: code by code.
  static Tensor unfolded(const StoredWeight& s) {
    const auto& [whole, padded, blocks] = s.cut;
    const auto packed = std::ssize(s.codes.bytes());
    std::vector<float> values;
    for (int64_t o = 0; o < whole.outer; ++o)
      for (int64_t b = 0; b < whole.before; ++b)
        for (int64_t c = 0; c < whole.channels; ++c)
          for (int64_t a = 0; a < whole.after; ++a) {
            const int64_t place = ((o * padded.before + b) * padded.channels + c) * padded.after + a;
            const int64_t outer = place / (blocks.before * blocks.channels * blocks.after);
            const int64_t scale = outer * blocks.channels + place / blocks.after % blocks.channels;
            double code = s.bits == 8 ? element(s.codes, place) : 0;
            if (s.bits == 4) {
              const auto byte = static_cast<int>(element(s.codes, place % packed));
              code = place < packed ? byte % 16 : byte / 16;
            }
            const bool has_zero = !s.zero_point.bytes().empty();
            const double zero = has_zero ? element(s.zero_point, s.zero_point.element_count() == 1 ? 0 : scale) : 0;
            values.push_back(static_cast<float>(code - zero) * static_cast<float>(element(s.scale, scale)));
          }
    const auto count = std::ssize(values);
    return in_type(s.scale.type(), {count}, std::move(values));
  }

  static Model sorted(Model model) {
    sort_nodes(model.graph);
    return model;
  }

  const Encoding& encoding_;
  const Model file_;
  const GraphView view_;
  Dequantizer reader_;
  std::optional<Dequantized> twin_;
  bool has_bodies_ = false;
  std::vector<std::string> unlike_;
};

}  // namespace seqto::internal
