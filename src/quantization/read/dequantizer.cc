#include "quantization/read/dequantizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/op_traits.h"
#include "model/sort_nodes.h"
#include "quantization/arithmetic/arithmetic.h"
#include "quantization/plan/layer_names.h"
#include "seqto/error.h"

namespace seqto::internal {

Dequantizer::Dequantizer(const Model& model) : model_(model), view_(model) {
  for (const auto& [name, tensor] : view_.initializers) taken_.insert(name);
  taken_.insert(view_.inputs.begin(), view_.inputs.end());
  for (const Node& n : model.graph.nodes) taken_.insert(n.outputs.begin(), n.outputs.end());
}

const Tensor* Dequantizer::tensor(const std::string& name) const {
  auto it = unfolded_.find(name);
  return it == unfolded_.end() ? view_.constant(name) : &it->second;
}

std::string Dequantizer::resolved(std::string name) const {
  for (auto it = alias_.find(name); it != alias_.end(); it = alias_.find(name)) name = it->second;
  return name;
}

std::string Dequantizer::fresh(const std::string& wish) const {
  std::string name = wish;
  for (int k = 1; taken_.contains(name); ++k) name = fmt::format("{}_{}", wish, k);
  return name;
}

// --- what the integers mean

void Dequantizer::collect_codings() {
  for (const Node& n : model_.graph.nodes) {
    auto note = [&](const std::string& codes, size_t scale) {
      std::string zero_point = scale + 1 < n.inputs.size() ? n.inputs[scale + 1] : "";
      coded_.try_emplace(codes, Coded{codes, n.inputs[scale], zero_point});
    };
    if (is_dequantize(n)) note(n.inputs[0], 1);
    else if (const auto scale = output_scale(n)) note(n.outputs[0], *scale);
    else if (is_dynamic_quantize(n)) coded_.try_emplace(n.outputs[0], Coded{n.outputs[0], n.outputs[1], n.outputs[2]});
  }
  // Ops that hand on codes hand on their meaning, in both directions.
  const auto& nodes = model_.graph.nodes;
  auto share = [&](const std::string& from, const std::string& to) {
    if (auto it = coded_.find(from); it != coded_.end() && !coded_.contains(to))
      coded_[to] = {to, it->second.scale, it->second.zero_point};
  };
  for (const Node& n : nodes)
    if (has(n, kKeepsCodes) && !n.inputs.empty())
      for (const auto& o : n.outputs)
        if (!is_max_pool(n) || &o == &n.outputs[0]) share(n.inputs[0], o);
  for (size_t i = nodes.size(); i-- > 0;)
    if (has(nodes[i], kKeepsCodes) && !nodes[i].inputs.empty()) share(nodes[i].outputs[0], nodes[i].inputs[0]);
}

// --- the walk

Dequantized Dequantizer::run() {
  collect_codings();
  for (const Node& n : model_.graph.nodes) {
    if (done_.contains(&n)) continue;
    auto rule = rules().find(n.op_type);
    if (rule == rules().end()) other(n);
    else (this->*rule->second)(n), ++operators_;
  }
  finish_outputs();
  std::erase_if(nodes_, [&](const Node& n) { return dropped_.contains(n.outputs[0]); });
  result_.model = model_;
  Graph& graph = result_.model.graph;
  graph.nodes = std::move(nodes_);
  for (Initializer& i : added_) graph.initializers.push_back(std::move(i));
  graph.value_info.clear();
  drop_unused_initializers(graph);
  sort_nodes(graph);
  result_.model.producer_name = "seqto";
  result_.model.producer_version = SEQTO_VERSION;
  result_.model = infer_shapes(result_.model);
  if (pairs_ > 0) result_.actions.push_back(fmt::format("removed {} QuantizeLinear and DequantizeLinear", pairs_));
  if (operators_ > pairs_)
    result_.actions.push_back(fmt::format("{} integer operators are float ones", operators_ - pairs_));
  if (!weights_.empty()) result_.actions.push_back(fmt::format("{} integer constants are float ones", weights_.size()));
  if (activations_ > 0)
    result_.actions.push_back(fmt::format("put back {} Relu or Clip that quantized ranges stood for", activations_));
  return std::move(result_);
}

void Dequantizer::add_node(Node node) {
  for (const auto& o : node.outputs) made_by_[o] = nodes_.size(), taken_.insert(o);
  nodes_.push_back(std::move(node));
}

// The layer that `like` did, on floats; `output.codes` is the tensor that it wrote.
void Dequantizer::emit(const Node& like, std::string op_type, std::vector<std::string> inputs, const Coded& output,
                       std::string domain) {
  Node node{original_name(like.name), std::move(op_type), std::move(domain), std::move(inputs), {},
            like.attributes,          like.rest};
  bool codes = !output.scale.empty();
  std::string name = codes ? float_name(output.codes) : output.codes;
  node.outputs = {name};
  add_node(std::move(node));
  if (codes) float_of_[output.codes] = clamp(name, output);
}

void Dequantizer::add_float_twin(const Node& n, std::string op_type, std::string domain,
                                 std::vector<std::string> inputs) {
  add_node({original_name(n.name), std::move(op_type), std::move(domain), std::move(inputs), n.outputs, n.attributes,
            n.rest});
}

std::string Dequantizer::float_name(const std::string& codes) {
  std::vector<std::string> wishes;
  for (const Node* r : view_.edges.readers(codes))
    if (is_dequantize(*r)) wishes.push_back(r->outputs[0]);
  std::stable_partition(wishes.begin(), wishes.end(), [&](const auto& w) { return view_.outputs.contains(w); });
  std::string base = without_suffix(codes, "_quantized");
  if (base != codes && !taken_.contains(base)) wishes.insert(wishes.begin(), base);
  // A DequantizeLinear's own output is free once that node is gone; what is captured or made already is not.
  for (const auto& wish : wishes)
    if (!made_by_.contains(wish)) return wish;
  return fresh(codes + "_float");
}

DataType Dequantizer::type_of(const Coded& coded) const {
  if (const Tensor* zero = tensor(coded.zero_point)) return zero->type();
  const Node* maker = view_.edges.producer(coded.codes);
  if (const int64_t given = maker ? maker->int_attribute("output_dtype", 0) : 0) return static_cast<DataType>(given);
  const auto& inputs = model_.graph.inputs;
  const auto input = std::ranges::find(inputs, coded.codes, &ValueInfo::name);
  return input != inputs.end() && is_code_type(input->type) ? input->type : DataType::kUint8;
}

void Dequantizer::note_range(const std::string& name, const Coded& coded) {
  const Tensor *scale = tensor(coded.scale), *zero = tensor(coded.zero_point);
  if (!scale || scale->element_count() != 1) return;
  QuantLimits limits = quant_limits(type_of(coded));
  float s = static_cast<float>(element(*scale, 0));
  double z = zero ? element(*zero, 0) : 0;
  result_.ranges[name] = {static_cast<float>(limits.lowest - z) * s, static_cast<float>(limits.highest - z) * s};
}

std::string Dequantizer::clamp(const std::string& name, const Coded& coded) {
  note_range(name, coded);
  const Tensor *scale = tensor(coded.scale), *zero = tensor(coded.zero_point);
  if (!scale || scale->element_count() != 1) return name;
  QuantLimits limits = quant_limits(type_of(coded));
  double s = element(*scale, 0), z = zero ? element(*zero, 0) : 0;
  if (z != limits.lowest || never_negative(name)) return name;
  ++activations_;
  // The layer writes a tensor of its own, the activation the one that everybody knows; unless others read it as it is.
  std::string inner = fresh(name + "_unclipped"), outer = name;
  auto made = made_by_.find(name);
  const bool plain = !std::ranges::all_of(view_.edges.readers(name), [](const Node* r) { return is_quantize(*r); });
  if (made == made_by_.end() || plain || view_.captured.contains(name)) {
    std::swap(inner, outer);
    outer = fresh(name + "_clipped");
    inner = name;
  } else {
    for (auto& o : nodes_[made->second].outputs)
      if (o == name) o = inner;
    made_by_[inner] = made->second;
    note_range(inner, coded);  // what lies outside is cut off behind it
    taken_.insert(inner);
  }
  Node node{fresh(outer + "_Relu"), "Relu", "", {inner}, {outer}, {}, {}};
  bool six = std::abs((limits.highest - z) * s - 6) < s / 2 && model_.opset() >= 11;
  if (six) {
    node.op_type = "Clip";
    for (float bound : {0.0f, 6.0f})
      node.inputs.push_back(
          constant(fmt::format("{}_{}", outer, bound == 0 ? "min" : "max"), "", in_type(scale->type(), {}, {bound})));
  }
  add_node(std::move(node));
  if (outer != name) note_range(outer, coded);
  return outer;
}

bool Dequantizer::never_negative(const std::string& name) {
  // Nothing that it is made of may be: the first tensor that may ends the walk.
  std::unordered_set<std::string> seen;
  std::vector<std::string> open{name};
  while (!open.empty()) {
    const std::string next = std::move(open.back());
    open.pop_back();
    if (view_.inputs.contains(next)) continue;  // data; nobody put a Relu before them
    if (not_negative_.contains(next) || !seen.insert(next).second) continue;
    const auto made = made_by_.find(next);
    if (made == made_by_.end()) return false;
    const Node& n = nodes_[made->second];
    if (has(n, kNotNegative) || cuts_off_negative(n)) continue;
    if (is_add(n) || is_mul(n) || is_concat(n)) open.insert(open.end(), n.inputs.begin(), n.inputs.end());
    else if (has(n, kKeepsCodes | kPools) && !is_pad(n) && !n.inputs.empty()) open.push_back(n.inputs[0]);
    else return false;
  }
  not_negative_.merge(seen);  // nodes that are added later do not change them
  return true;
}

bool Dequantizer::cuts_off_negative(const Node& n) const {
  if (!is_clip(n)) return false;
  if (n.inputs.size() > 1) {
    const Tensor* low = tensor(n.inputs[1]);
    for (const Initializer& i : added_)
      if (i.name == n.inputs[1]) low = &i.tensor;
    if (low && element(*low, 0) >= 0) return true;
  }
  return n.float_attribute("min", -1) >= 0;
}

std::string Dequantizer::constant(const std::string& wish, const std::string& otherwise, Tensor value) {
  std::string name = !taken_.contains(wish) ? wish : !otherwise.empty() ? otherwise : fresh(wish);
  taken_.insert(name);
  added_.push_back({name, std::move(value)});
  return name;
}

// Graph outputs keep their names: the tensor behind takes the name over, or an Identity stands between.
void Dequantizer::finish_outputs() {
  for (const ValueInfo& v : model_.graph.outputs) {
    if (auto codes = float_of_.find(v.name); codes != float_of_.end() && !made_by_.contains(v.name)) {
      const Coded& coded = coded_.at(v.name);  // the model gives integers out: they are made at the end
      Node made{
          v.name + "_QuantizeLinear", "QuantizeLinear", "", {codes->second, coded.scale, coded.zero_point}, {v.name}};
      if (const Node* maker = view_.edges.producer(v.name); maker && is_quantize(*maker))
        made.domain = maker->domain, made.attributes = maker->attributes;
      add_node(std::move(made));
      continue;
    }
    std::string behind = resolved(v.name);
    if (behind == v.name) continue;
    bool own = made_by_.contains(behind) && !view_.outputs.contains(behind) && !view_.captured.contains(behind);
    if (own) rename(behind, v.name);
    else add_node({v.name + "_Identity", "Identity", "", {behind}, {v.name}, {}, {}});
  }
}

void Dequantizer::rename(const std::string& from, const std::string& to) {
  for (Node& n : nodes_) {
    std::replace(n.inputs.begin(), n.inputs.end(), from, to);
    std::replace(n.outputs.begin(), n.outputs.end(), from, to);
  }
  made_by_[to] = made_by_.at(from);
  made_by_.erase(from);
  alias_.erase(to);
  alias_[from] = to;
  for (auto& [codes, name] : float_of_)
    if (name == from) name = to;
  if (auto it = result_.ranges.find(from); it != result_.ranges.end()) {
    result_.ranges[to] = it->second;
    result_.ranges.erase(from);
  }
}

}  // namespace seqto::internal

namespace seqto {

Dequantized dequantize(const Model& model) {
  Model sorted = model;
  internal::sort_nodes(sorted.graph);
  Dequantized twin = internal::Dequantizer(sorted).run();
  if (twin.actions.empty())
    throw Error(Code::kInvalidInput,
                "[dequantize] no quantized operator, QuantizeLinear or DequantizeLinear found; a quantized model was "
                "expected; this one is float already");
  return twin;
}

}  // namespace seqto
