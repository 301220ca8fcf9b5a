#include "quantization/plan/layer_fields.h"

#include <fmt/format.h>

#include <unordered_set>

#include "model/op_traits.h"
#include "quantization/plan/code_types.h"
#include "quantization/plan/overrides.h"
#include "quantization/plan/validate_options.h"
#include "seqto/error.h"
#include "seqto/improve.h"

namespace seqto::internal {
namespace {

// --- which scheme has which field

class Validator {
 public:
  Validator(const LayerId& layer, Scheme scheme, const LayerOptions& fields, const QuantizeOptions& options)
      : layer_(layer), scheme_(scheme), fields_(fields), options_(options) {}

  void run() const {
    const LayerOptions& f = fields_;
    bool dynamic = scheme_ == Scheme::kInt8Dynamic, statically = is_static(scheme_);
    bool eight = scheme_ == Scheme::kInt8Weights, four = scheme_ == Scheme::kInt4Weights;
    bool qdq = statically && options_.format == QuantFormat::kQdq;
    require(f.weight_type.has_value(), "weight_type", statically || dynamic || eight || four);
    require(f.symmetric_weights.has_value(), "symmetric_weights", statically || dynamic || eight || four);
    require(f.per_channel.has_value(), "per_channel", statically || dynamic);
    require(f.per_token.has_value(), "per_token", dynamic);
    require(f.reduce_range.has_value(), "reduce_range", statically || dynamic);
    require(f.weight_clipping.has_value(), "weight_clipping", statically);
    require(f.block_size.has_value(), "block_size", qdq || eight || four);
    require(f.bits.has_value(), "bits", four);
    require(f.accuracy_level.has_value(), "accuracy_level", four);
    require(f.activation_type.has_value(), "activation_type", qdq && scheme_ == Scheme::kInt8);
    require(f.symmetric_activations.has_value(), "symmetric_activations", qdq && scheme_ == Scheme::kInt8);
    require(f.method.has_value(), "method", statically);
    for (const Improver& i : improvers())
      if (i.field) require((f.*i.field).has_value(), i.field_name, i.serves(scheme_));
    if (f.weight_type) check_weight_type(qdq, four);
    if (f.accuracy_level && *f.accuracy_level != 0 && *f.accuracy_level != 1 && *f.accuracy_level != 4)
      fail(fmt::format("accuracy_level {} found; 0, 1 or 4", *f.accuracy_level));
    if (f.block_size && *f.block_size < 0) fail(fmt::format("block_size {}; 0 or more", *f.block_size));
    if (statically) validate_static_types(with_fields(options_, scheme_, f));
    if (four) validate_low_bits(with_fields(options_, scheme_, f).weight_only);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(Code::kUsage,
                fmt::format("[plan] layer '{}', {}: {} expected; correct the plan", layer_, to_string(scheme_), what));
  }

  void require(bool set, const char* field, bool has) const {
    if (!set || has) return;
    bool form = is_static(scheme_) && options_.format == QuantFormat::kQoperator;
    throw Error(Code::kUsage,
                fmt::format("[plan] layer '{}': field {} found, which scheme {}{} does not have; leave it "
                            "out{}",
                            layer_, field, to_string(scheme_), form ? " in QOperator form" : "",
                            form ? ", or use --format qdq" : ""));
  }

  void check_weight_type(bool qdq, bool four) const {
    DataType t = *fields_.weight_type;
    bool is4 = is_4_bits(t);
    const char* wanted = qdq ? "int8, uint8, int16, uint16, int4 or uint4" : four ? "int4 or uint4" : "int8 or uint8";
    bool fits = qdq ? is4 || is_16_bits(t) || is_8_bits(t) : four ? is4 : is_8_bits(t);
    if (!fits) fail(fmt::format("weight_type {} found; {}", to_string(t), wanted));
  }

  const LayerId& layer_;
  Scheme scheme_;
  const LayerOptions& fields_;
  const QuantizeOptions& options_;
};

int bits_of(DataType type) { return static_cast<int>(element_bits(type)); }

// --- static layers: claims on tensors

// How a static layer reads one of its inputs.
enum class Use { kActivation, kWeight, kBias };
Use use_of(const Node& n, size_t input) {
  if (is_matmul(n)) return Use::kWeight;
  if (!has(n, kProduct | kNormalization)) return Use::kActivation;
  return input == 0 ? Use::kActivation : input == 1 ? Use::kWeight : Use::kBias;
}

class Claims {
 public:
  Claims(const Model& model, const GraphView& index, const QuantizeOptions& options)
      : model_(model), index_(index), options_(options) {
    for (const Node& n : model.graph.nodes)
      for (size_t k = 0; k < n.inputs.size(); ++k)
        if (index.is_initializer(n.inputs[k]) && use_of(n, k) == Use::kBias) biases_.insert(n.inputs[k]);
  }

  QuantizeOptions run(const std::vector<StaticLayer>& layers) {
    for (const StaticLayer& layer : layers) {
      if (layer.wide) claim_activations(layer, DataType::kInt16, true);
      if (!layer.fields) continue;
      const LayerOptions& f = *layer.fields;
      if (f.activation_type || f.symmetric_activations)
        claim_activations(layer, f.activation_type.value_or(options_.activation_type), f.symmetric_activations);
      claim_constants(layer);
    }
    for (const StaticLayer& layer : layers)
      if (reduces(layer)) reduce_constants(layer);
    for (const StaticLayer& layer : layers)
      if (!layer.wide && !(layer.fields && layer.fields->activation_type)) widen(layer);
    QuantizeOptions result = options_;
    for (auto& [tensor, entry] : constants_) result.tensor_overrides.try_emplace(tensor, std::vector{entry});
    for (auto& [tensor, claim] : claims_) result.tensor_overrides.try_emplace(tensor, std::vector{claim.entry});
    return result;
  }

 private:
  struct Claim {
    TensorOverride entry;
    bool reads = false;
  };

  const Node& node(const StaticLayer& layer) const { return model_.graph.nodes[layer.node]; }

  void claim_activations(const StaticLayer& layer, DataType type, std::optional<bool> symmetric) {
    TensorOverride entry;
    entry.quant_type = type;
    entry.symmetric = symmetric;
    for (bool reads : {true, false})
      for (const auto& name : reads ? node(layer).inputs : node(layer).outputs)
        if (index_.is_float(name) && !index_.is_initializer(name)) claim(name, entry, reads);
  }

  // More bits go first, then who reads, then who comes first.
  void claim(const std::string& tensor, const TensorOverride& entry, bool reads) {
    auto [it, added] = claims_.try_emplace(tensor, Claim{entry, reads});
    if (added) return;
    int have = bits_of(*it->second.entry.quant_type), want = bits_of(*entry.quant_type);
    if (want > have || (want == have && reads && !it->second.reads)) it->second = {entry, reads};
  }

  // A layer without a type of its own wants the options', where that has more bits than a neighbour asked for.
  void widen(const StaticLayer& layer) {
    auto look = [&](const std::string& tensor) {
      auto it = claims_.find(tensor);
      if (it == claims_.end()) return;
      if (bits_of(options_.activation_type) > bits_of(*it->second.entry.quant_type)) claims_.erase(it);
    };
    for (const auto* names : {&node(layer).inputs, &node(layer).outputs})
      for (const auto& name : *names) look(name);
  }

  void claim_constants(const StaticLayer& layer) {
    const LayerOptions& f = *layer.fields;
    TensorOverride weight, operand;
    weight.quant_type = f.weight_type;
    weight.per_channel = f.per_channel.value_or(options_.per_channel);
    if (!*weight.per_channel)
      weight.symmetric = f.symmetric_weights;  // channels are symmetric, as onnxruntime has them
    weight.weight_clipping = f.weight_clipping;
    weight.block_size = f.block_size;
    operand.quant_type = f.activation_type;
    operand.symmetric = f.symmetric_activations;
    weight.reduce_range = operand.reduce_range = f.reduce_range;
    const Node& n = node(layer);
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      const std::string& name = n.inputs[k];
      Use use = use_of(n, k);
      if (!index_.is_initializer(name) || !index_.is_float(name) || use == Use::kBias || biases_.contains(name))
        continue;
      constants_.try_emplace(name, use == Use::kWeight ? weight : operand);
    }
  }

  bool reduces(const StaticLayer& layer) const {
    return layer.fields ? layer.fields->reduce_range.value_or(options_.reduce_range) : options_.reduce_range;
  }

  // A constant that several layers read has 7 bits where one of them needs it.
  void reduce_constants(const StaticLayer& layer) {
    for (const auto& name : node(layer).inputs)
      if (auto it = constants_.find(name); it != constants_.end()) it->second.reduce_range = true;
  }

  const Model& model_;
  const GraphView& index_;
  const QuantizeOptions& options_;
  std::unordered_set<std::string> biases_;
  std::map<std::string, TensorOverride> constants_;  // the first layer's word
  std::map<std::string, Claim> claims_;              // on activations
};

}  // namespace

void validate_fields(const LayerId& layer, Scheme scheme, const LayerOptions& fields, const QuantizeOptions& options) {
  Validator(layer, scheme, fields, options).run();
}

QuantizeOptions with_fields(const QuantizeOptions& options, Scheme scheme, const LayerOptions& f) {
  QuantizeOptions o = options;
  if (is_static(scheme) || scheme == Scheme::kInt8Dynamic) {
    o.weight_type = f.weight_type.value_or(o.weight_type);
    if (f.symmetric_weights) o.symmetric_weights = f.symmetric_weights;
    o.per_channel = f.per_channel.value_or(o.per_channel);
    o.per_token = f.per_token.value_or(o.per_token);
    o.reduce_range = f.reduce_range.value_or(o.reduce_range);
    o.weight_clipping = f.weight_clipping.value_or(o.weight_clipping);
    o.block_size = f.block_size.value_or(o.block_size);
    o.activation_type = f.activation_type.value_or(o.activation_type);
    o.symmetric_activations = f.symmetric_activations.value_or(o.symmetric_activations);
    return o;
  }
  WeightOnlyOptions& w = o.weight_only;
  bool four = scheme == Scheme::kInt4Weights;
  bool& symmetric = four ? w.int4_symmetric : w.int8_symmetric;
  if (f.weight_type) symmetric = *f.weight_type == DataType::kInt8 || *f.weight_type == DataType::kInt4;
  symmetric = f.symmetric_weights.value_or(symmetric);
  int64_t& block = four ? w.int4_block_size : w.int8_block_size;
  block = f.block_size.value_or(block);
  w.bits = f.bits.value_or(w.bits);
  w.accuracy_level = f.accuracy_level.value_or(w.accuracy_level);
  return o;
}

void LayerwiseOptions::set(const LayerId& layer, Scheme scheme, const LayerOptions& fields) {
  auto it = made_.find({scheme, fields});
  if (it == made_.end()) it = made_.emplace(std::pair{scheme, fields}, with_fields(common_, scheme, fields)).first;
  layers_[layer] = &it->second;
}

const QuantizeOptions& LayerwiseOptions::of(const LayerId& layer) const {
  auto it = layers_.find(layer);
  return it == layers_.end() ? common_ : *it->second;
}

std::vector<StaticLayer> static_layers(const Model& model, const Plan& plan, const std::vector<bool>& selected) {
  std::vector<StaticLayer> result;
  for (size_t i = 0; i < selected.size(); ++i) {
    if (!selected[i]) continue;
    const LayerId& name = model.graph.nodes[i].name;
    auto fields = plan.options.find(name);
    const LayerOptions* own = fields == plan.options.end() || fields->second.empty() ? nullptr : &fields->second;
    result.push_back({i, plan.schemes.at(name) == Scheme::kInt8wInt16a, own});
  }
  return result;
}

QuantizeOptions static_options(const Model& model, const GraphView& index, const QuantizeOptions& options,
                               const std::vector<StaticLayer>& layers) {
  return Claims(model, index, options).run(layers);
}

Ranges ranges_of_methods(const Model& model, const GraphView& index, const Ranges& ranges,
                         const std::map<std::string, Ranges>& named, const std::vector<StaticLayer>& layers) {
  Ranges result = ranges;
  std::unordered_set<std::string> taken;
  auto take = [&](const std::vector<std::string>& tensors, const Ranges& from) {
    for (const auto& tensor : tensors)
      if (auto it = from.find(tensor); it != from.end() && !index.is_initializer(tensor) && taken.insert(tensor).second)
        result[tensor] = it->second;
  };
  for (const StaticLayer& layer : layers)
    if (layer.fields && layer.fields->method && !named.contains(*layer.fields->method))
      throw Error(Code::kUsage,
                  fmt::format("[quantize] layer '{}' wants the ranges of method '{}', which were not given; calibrate "
                              "with that method too, or leave the field out",
                              model.graph.nodes[layer.node].name, *layer.fields->method));
  // Who reads a tensor goes before who writes it.
  for (bool reads : {true, false})
    for (const StaticLayer& layer : layers) {
      const Node& n = model.graph.nodes[layer.node];
      if (layer.fields && layer.fields->method) take(reads ? n.inputs : n.outputs, named.at(*layer.fields->method));
    }
  return result;
}

}  // namespace seqto::internal
