#include "quantization/calibration/frontier.h"

#include <algorithm>
#include <optional>

#include "model/graph_view.h"
#include "model/op_traits.h"
#include "model/sort_nodes.h"
#include "quantization/calibration/channel_means.h"

namespace seqto::internal {
namespace {

class Border {
 public:
  Border(const Model& model, const std::unordered_set<LayerId>& open) : nodes_(model.graph.nodes), view_(model) {
    std::unordered_set<std::string> computed, reached;  // from inputs, from open nodes
    for (const ValueInfo& v : model.graph.free_inputs()) computed.insert(v.name);
    computes_.resize(nodes_.size());
    open_.resize(nodes_.size());
    for (size_t i = 0; i < nodes_.size(); ++i) {
      bool named = open.contains(nodes_[i].name);
      for_each_read(nodes_[i], [&](const std::string& name) {
        computes_[i] = computes_[i] || computed.contains(name);
        open_[i] = open_[i] || reached.contains(name);
      });
      open_[i] = open_[i] || named;
      if (named) wanted_.insert(nodes_[i].outputs.begin(), nodes_[i].outputs.end());
      if (computes_[i]) computed.insert(nodes_[i].outputs.begin(), nodes_[i].outputs.end());
      if (open_[i]) reached.insert(nodes_[i].outputs.begin(), nodes_[i].outputs.end());
    }
  }

  // From the end on: a tensor whose values cannot be kept is computed anew from what it is made of.
  std::vector<BorderTensor> run() {
    std::vector<BorderTensor> border;
    std::unordered_set<std::string> read;  // by open nodes
    for (size_t i = nodes_.size(); i-- > 0;) {
      const Node& n = nodes_[i];
      if (!needed(n)) continue;
      std::vector<BorderTensor> given;
      for (const auto& name : n.outputs)
        if (read.contains(name)) {
          const auto type = kept_type(n, name);
          if (type && computes_[i]) given.push_back({name, *type});
          else open_[i] = true;
        }
      // Constants are computed anew, too.
      if (open_[i] || !computes_[i]) for_each_read(n, [&](const std::string& name) { read.insert(name); });
      else border.insert(border.end(), given.rbegin(), given.rend());
      for_each_read(n, [&](const std::string& name) { wanted_.insert(name); });
    }
    std::ranges::reverse(border);
    return border;
  }

 private:
  bool needed(const Node& n) const {
    return std::ranges::any_of(n.outputs, [&](const std::string& name) { return wanted_.contains(name); });
  }

  std::optional<DataType> kept_type(const Node& n, const std::string& output) const {
    if (is_quantize(n)) {  // whichever domain: the zero point's type is that of the codes
      const Tensor* zero = n.inputs.size() > 2 ? view_.constant(n.inputs[2]) : nullptr;
      if (!zero) return {};
      const DataType type = zero->type();
      return type == DataType::kInt8 || type == DataType::kUint8 ? std::optional(type) : std::nullopt;
    }
    if (is_dequantize(n)) return {};  // the kernels of a quantized layer begin with it
    auto type = view_.types.find(output);
    return type != view_.types.end() && type->second == DataType::kFloat ? std::optional(DataType::kFloat)
                                                                         : std::nullopt;
  }

  const std::vector<Node>& nodes_;
  GraphView view_;
  std::unordered_set<std::string> wanted_;
  std::vector<char> computes_, open_;
};

bool holds(const std::vector<BorderTensor>& tensors, const std::string& name) {
  return std::ranges::any_of(tensors, [&](const BorderTensor& t) { return t.name == name; });
}

int64_t bytes_of(const Tensor& tensor) {
  return tensor.element_count() * static_cast<int64_t>(element_bits(tensor.type())) / 8;
}

}  // namespace

std::vector<BorderTensor> border_of(const Model& model, const std::unordered_set<LayerId>& open) {
  return Border(model, open).run();
}

Frontier::Frontier(Runner& runner, size_t samples, int64_t bytes) : runner_(runner), bytes_(bytes), values_(samples) {}

void Frontier::advance(const Model& model, const std::vector<std::string>& tensors,
                       const std::unordered_set<LayerId>& open) {
  if (!next_.empty()) {
    kept_ = std::move(border_);
    values_ = std::move(next_);
  }
  next_.clear();
  model_ = model;
  tensors_ = tensors;
  computed_.clear();
  for (const auto& name : tensors)
    if (!holds(kept_, name) && !holds(computed_, name)) computed_.push_back({name, DataType::kFloat});
  asked_ = computed_.size();
  border_ = border_of(model, open);
  const bool moves = std::ranges::any_of(border_, [&](const BorderTensor& t) { return !holds(kept_, t.name); });
  if (!moves) border_.clear();
  for (const BorderTensor& t : border_)
    if (!holds(kept_, t.name) && !holds(computed_, t.name)) computed_.push_back(t);
  session_ = load(computed_);
}

std::unique_ptr<Session> Frontier::load(const std::vector<BorderTensor>& outputs) const {
  if (outputs.empty()) return nullptr;
  Model part = model_;
  std::erase_if(part.graph.nodes, [&](const Node& n) {
    return std::ranges::any_of(n.outputs, [&](const std::string& name) { return holds(kept_, name); });
  });
  std::vector<std::string> names;
  part.graph.outputs.clear();
  part.graph.value_info.clear();
  for (const BorderTensor& t : outputs) {
    names.push_back(t.name);
    part.graph.outputs.push_back({t.name, t.type, {}, ""});
  }
  for (const BorderTensor& t : kept_) part.graph.inputs.push_back({t.name, t.type, {}, ""});
  keep_ancestors(part.graph, names);
  drop_unused_initializers(part.graph);
  return runner_.load(part, {.threads = 1});
}

std::vector<Tensor> Frontier::run(size_t sample, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> given = inputs, outputs;
  for (const BorderTensor& t : kept_) given.push_back(values_[sample].at(t.name));
  if (session_) outputs = session_->run(given);
  std::vector<Tensor> result;
  for (const std::string& name : tensors_) {
    const auto at = std::ranges::find(computed_, name, &BorderTensor::name);
    result.push_back(at == computed_.end() ? values_[sample].at(name)
                                           : outputs[static_cast<size_t>(at - computed_.begin())]);
  }
  if (!border_.empty()) keep(sample, outputs);
  return result;
}

void Frontier::keep(size_t sample, const std::vector<Tensor>& outputs) {
  Values values;
  int64_t bytes = 0;
  for (const BorderTensor& t : border_) {
    const auto at = std::ranges::find(computed_, t.name, &BorderTensor::name);
    Tensor& value = values[t.name] =
        at == computed_.end() ? values_[sample].at(t.name) : outputs[static_cast<size_t>(at - computed_.begin())];
    bytes += bytes_of(value);
  }
  if (next_.empty() && bytes * std::ssize(values_) > bytes_) {
    border_.clear();
    computed_.resize(asked_);
    session_ = load(computed_);
    return;
  }
  next_.resize(values_.size());
  next_[sample] = std::move(values);
  values_[sample].clear();  // both together would be twice the memory
}

}  // namespace seqto::internal
