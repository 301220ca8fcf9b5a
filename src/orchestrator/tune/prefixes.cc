#include "orchestrator/tune/prefixes.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "model/graph_view.h"

namespace seqto::internal {
namespace {

// A cut's values instead of the model's inputs.
class CutDataset : public Dataset {
 public:
  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }
  Sample read(int64_t index) const override { return samples_.at(index); }
  bool has_labels() const override { return false; }
  std::string fingerprint() const override { return {}; }

  void add(int64_t index, Tensor value, const Sample& sample) {
    samples_[index] = {.inputs = {std::move(value)}, .counted = sample.counted};
  }

 private:
  std::map<int64_t, Sample> samples_;  // by index
};

bool has_bodies(const Model& model) {
  for (const Node& node : model.graph.nodes)
    if (node.op_type == "If" || node.op_type == "Loop" || node.op_type == "Scan") return true;
  return false;
}

}  // namespace

std::vector<std::string> cut_tensors(const Model& model) {
  if (has_bodies(model)) return {};  // bodies read tensors that no edge tells of
  const Edges edges(model.graph);
  std::unordered_set<std::string> outputs;
  for (const ValueInfo& v : model.graph.outputs) outputs.insert(v.name);
  // Tensors that are made and still to be read.
  std::unordered_set<std::string> live;
  for (const ValueInfo& v : model.graph.free_inputs())
    if (!edges.readers(v.name).empty()) live.insert(v.name);
  std::vector<std::string> cuts;
  for (const Node& node : model.graph.nodes) {
    for (const std::string& input : node.inputs)
      if (!input.empty() && edges.readers(input).back() == &node) live.erase(input);
    for (const std::string& output : node.outputs)
      if (edges.uses(output) > 0) live.insert(output);
    // What is behind a later cut would not give it: of a decoder, the states of its first blocks.
    if (std::ranges::any_of(node.outputs, [&](const auto& output) { return outputs.contains(output); })) break;
    if (live.size() == 1 && !node.outputs.empty() && live.contains(node.outputs[0])) cuts.push_back(node.outputs[0]);
  }
  return cuts;
}

Model behind(const Model& model, const ValueInfo& tensor) {
  const Edges edges(model.graph);
  std::unordered_set<const Node*> needed;
  std::unordered_set<std::string> read;
  std::vector<std::string> open;
  for (const ValueInfo& v : model.graph.outputs) open.push_back(v.name);
  while (!open.empty()) {
    const std::string name = std::move(open.back());
    open.pop_back();
    if (name == tensor.name || !read.insert(name).second) continue;
    const Node* producer = edges.producer(name);
    if (!producer || !needed.insert(producer).second) continue;
    open.insert(open.end(), producer->inputs.begin(), producer->inputs.end());
  }
  Model result = model;
  result.graph.nodes.clear();
  for (const Node& node : model.graph.nodes)
    if (needed.contains(&node)) result.graph.nodes.push_back(node);
  std::erase_if(result.graph.initializers, [&](const Initializer& i) { return !read.contains(i.name); });
  result.graph.inputs = {tensor};
  return result;
}

struct Prefixes::Impl {
  struct Cut {
    ValueInfo tensor;
    size_t position;  // of the node that makes it
    CutDataset values;
  };
  std::vector<Cut> cuts;  // in graph order
  std::unordered_map<LayerId, size_t> positions;
  const Model& model;
  const Dataset& data;
  std::vector<int64_t> samples;
  Runner& runner;
  std::once_flag filled;

  void fill() {
    Model observed = model;
    observed.graph.outputs.clear();
    for (const Cut& cut : cuts) observed.graph.outputs.push_back(cut.tensor);
    const auto session = runner.load(observed);
    for (int64_t index : samples) {
      const Sample sample = data.read(index);
      std::vector<Tensor> values = session->run(sample.inputs);
      for (size_t i = 0; i < values.size(); ++i) cuts[i].values.add(index, std::move(values[i]), sample);
    }
  }
};

Prefixes::Prefixes(const Model& model, const Dataset& data, std::span<const int64_t> samples, Runner& runner,
                   int64_t bytes)
    : impl_(new Impl{.model = model, .data = data, .samples = {samples.begin(), samples.end()}, .runner = runner}) {
  constexpr size_t kCuts = 8;
  for (size_t i = 0; i < model.graph.nodes.size(); ++i) impl_->positions[model.graph.nodes[i].name] = i;
  const Edges edges(model.graph);
  const auto place = [&](const std::string& tensor) { return edges.place(*edges.producer(tensor)); };
  std::unordered_map<std::string, const ValueInfo*> infos;
  for (const ValueInfo& info : model.graph.value_info) infos[info.name] = &info;

  // Of the tensors small enough, those nearest to even steps along the graph.
  std::vector<std::string> possible;
  for (std::string& name : cut_tensors(model)) {
    const auto info = infos.find(name);
    if (info == infos.end() || info->second->type != DataType::kFloat || !info->second->shape) continue;
    int64_t size = static_cast<int64_t>(sizeof(float) * samples.size());
    for (const Dimension& d : *info->second->shape) size *= std::max<int64_t>(1, d.value);
    if (size <= bytes / static_cast<int64_t>(kCuts)) possible.push_back(std::move(name));
  }
  const size_t nodes = model.graph.nodes.size();
  for (size_t k = 1; k <= kCuts; ++k) {
    const size_t wanted = k * nodes / (kCuts + 1);
    const auto at = std::ranges::find_if(possible, [&](const std::string& name) { return place(name) >= wanted; });
    if (at == possible.end()) break;
    const size_t position = place(*at);
    if (!impl_->cuts.empty() && impl_->cuts.back().position == position) continue;
    impl_->cuts.push_back({*infos[*at], position, {}});
  }
}

Prefixes::~Prefixes() = default;
Prefixes::Prefixes(Prefixes&&) noexcept = default;

std::optional<Prefixes::Suffix> Prefixes::suffix(const Plan& plan, const Model& candidate) const {
  size_t first = impl_->positions.size();
  for (const auto& [layer, scheme] : plan.schemes) {
    const auto position = impl_->positions.find(layer);
    if (position == impl_->positions.end()) return {};
    first = std::min(first, position->second);
  }
  const Impl::Cut* last = nullptr;
  for (const Impl::Cut& cut : impl_->cuts)
    if (cut.position < first) last = &cut;
  if (!last) return {};
  const auto makes = [&](const Node& node) {
    return std::ranges::find(node.outputs, last->tensor.name) != node.outputs.end();
  };
  if (std::ranges::none_of(candidate.graph.nodes, makes)) return {};
  std::call_once(impl_->filled, [&] { impl_->fill(); });
  return Suffix{behind(candidate, last->tensor), &last->values};
}

size_t Prefixes::cuts() const { return impl_->cuts.size(); }

}  // namespace seqto::internal
