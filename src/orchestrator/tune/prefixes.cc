#include "orchestrator/tune/prefixes.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_map>

#include "model/graph_view.h"
#include "orchestrator/one_pass/cuts.h"

namespace seqto::internal {
namespace {

// A cut's values instead of the model's inputs.
class CutDataset : public Dataset {
 public:
  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }
  Sample read(int64_t index) const override { return samples_.at(index); }
  bool has_labels() const override { return false; }
  std::string fingerprint() const override { return {}; }

  void add(int64_t index, std::vector<Tensor> inputs, const Sample& sample) {
    samples_[index] = {.inputs = std::move(inputs), .counted = sample.counted};
  }

 private:
  std::map<int64_t, Sample> samples_;  // by index
};

// How many elements a tensor of these dims has for a sample as long as that; a file may claim more than are countable.
double elements(const std::vector<Dimension>& dims, int64_t longest) {
  double known = 1;
  bool open = false;
  for (const Dimension& d : dims) {
    if (d.value > 0) known *= static_cast<double>(d.value);
    else open |= d.value < 0;
  }
  return open ? known * static_cast<double>(longest) : known;
}

}  // namespace

struct Prefixes::Impl {
  struct Cut {
    ValueInfo tensor;
    size_t position;                  // of the node that makes it
    std::vector<std::string> inputs;  // of the model, that are read behind it
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
    const std::vector<ValueInfo> free = model.graph.free_inputs();
    for (int64_t index : samples) {
      const Sample sample = data.read(index);
      std::vector<Tensor> values = run_sample(*session, sample);
      for (size_t i = 0; i < values.size(); ++i) {
        std::vector<Tensor> inputs{std::move(values[i])};
        for (size_t k = 0; k < free.size(); ++k)
          if (std::ranges::count(cuts[i].inputs, free[k].name) > 0) inputs.push_back(sample.inputs.at(k));
        cuts[i].values.add(index, std::move(inputs), sample);
      }
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
  int64_t longest = 1;  // axis of the inputs
  if (!samples.empty())
    for (const Tensor& input : data.read(samples.front()).inputs)
      longest = std::max(longest, input.dims().empty() ? 1 : std::ranges::max(input.dims()));
  std::vector<std::string> possible;
  for (std::string& name : cut_tensors(model)) {
    const auto info = infos.find(name);
    if (info == infos.end() || info->second->type != DataType::kFloat || !info->second->shape) continue;
    const double size = static_cast<double>(sizeof(float) * samples.size()) * elements(*info->second->shape, longest);
    if (size <= static_cast<double>(bytes) / static_cast<double>(kCuts)) possible.push_back(std::move(name));
  }
  const size_t nodes = model.graph.nodes.size();
  for (size_t k = 1; k <= kCuts; ++k) {
    const size_t wanted = k * nodes / (kCuts + 1);
    const auto at = std::ranges::find_if(possible, [&](const std::string& name) { return place(name) >= wanted; });
    if (at == possible.end()) break;
    const size_t position = place(*at);
    if (!impl_->cuts.empty() && impl_->cuts.back().position == position) continue;
    impl_->cuts.push_back({*infos[*at], position, inputs_behind(model, *at), {}});
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
  return Suffix{behind(candidate, last->tensor, last->inputs), &last->values};
}

size_t Prefixes::cuts() const { return impl_->cuts.size(); }

}  // namespace seqto::internal
