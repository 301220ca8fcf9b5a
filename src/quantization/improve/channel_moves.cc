#include "quantization/improve/channel_moves.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "model/op_traits.h"

namespace seqto::internal {
namespace {

constexpr const char* kNumbered = "_seqto_numbered";
constexpr const char* kLeast = "_seqto_numbered_least";  // the same with zeros put above all numbers
// Floats count so far one by one.
constexpr size_t kMostChannels = (size_t{1} << 24) - 2;

// How many of the inputs are moved; the others say where to.
size_t moved_inputs(const Node& node) { return is_concat(node) ? node.inputs.size() : 1; }

// What is computed from constants and shapes alone, so that one sample tells what it is for all.
std::unordered_set<std::string> fixed_tensors(const Model& model, const GraphView& index) {
  std::unordered_set<std::string> fixed;
  const auto is_fixed = [&](const std::string& name) {
    return name.empty() || index.constant(name) || fixed.contains(name);
  };
  for (const Node& node : model.graph.nodes)
    if (is_shape(node) || (!node.inputs.empty() && std::ranges::all_of(node.inputs, is_fixed)))
      fixed.insert(node.outputs.begin(), node.outputs.end());
  return fixed;
}

bool is_move(const Node& node, const GraphView& index, const std::unordered_set<std::string>& fixed) {
  if (!node.domain.empty() || node.inputs.empty() || !has(node, kMovesChannels)) return false;
  if (is_pad(node) && node.string_attribute("mode", "constant") == "constant" && !pads_zeros(node, index)) return false;
  for (size_t i = 0; i < moved_inputs(node); ++i) {
    const std::string& name = node.inputs[i];
    auto type = index.types.find(name);
    if (index.constant(name) || type == index.types.end() || type->second != DataType::kFloat) return false;
  }
  for (size_t i = moved_inputs(node); i < node.inputs.size(); ++i)
    if (!node.inputs[i].empty() && !index.constant(node.inputs[i]) && !fixed.contains(node.inputs[i])) return false;
  return true;
}

class Tracer {
 public:
  Tracer(const Model& model, const GraphView& index) : model_(model), index_(index), shapes_(model) {
    const auto fixed = fixed_tensors(model, index);
    for (const Node& node : model.graph.nodes)
      if (is_move(node, index, fixed)) {
        moves_.nodes.insert(&node);
        moves_.moved.insert(node.outputs.begin(), node.outputs.end());
      }
    number_sources();
    find_wanted();
  }

  ChannelMoves run(const SampleRun& on) {
    if (!wanted_.empty()) {
      const auto ranges = channel_ranges(numbered(), wanted_, on);
      for (size_t i = 0; i < read_.size(); ++i) settle(read_[i], ranges[i].highest, ranges[i + read_.size()].lowest);
    }
    return std::move(moves_);
  }

 private:
  // A moved tensor that something else reads, or that is good to know.
  struct Read {
    std::string name;
    size_t rank = 0;
    bool needed = true;
  };

  // What moves read and no move writes. Channels count from 1 on: 0 is what was padded.
  void number_sources() {
    for (const Node& node : model_.graph.nodes) {
      if (!moves_.nodes.contains(&node)) continue;
      std::set<std::string>& sources = sources_[node.outputs[0]];
      for (size_t i = 0; i < moved_inputs(node); ++i) {
        const std::string& name = node.inputs[i];
        if (auto above = sources_.find(name); above != sources_.end()) {
          sources.insert(above->second.begin(), above->second.end());
          continue;
        }
        sources.insert(name);
        const auto shape = shapes_.of(name);
        if (!shape || first_.contains(name) || count_ + shape->channels > kMostChannels) continue;
        first_[name] = count_ + 1;
        for (size_t c = 0; c < shape->channels; ++c) origins_.push_back({name, c});
        count_ += shape->channels;
      }
      for (size_t i = 1; i < node.outputs.size(); ++i) sources_[node.outputs[i]] = sources;
    }
  }

  // Tensors on the way from one move to the next may have any form.
  void find_wanted() {
    std::unordered_set<std::string> seen;
    const auto want = [&](const std::string& name, bool needed = true) {
      if (!moves_.moved.contains(name) || !seen.insert(name).second) return;
      const auto& sources = sources_.at(name);
      const auto shape = shapes_.of(name);
      if (shape && std::ranges::all_of(sources, [&](const auto& source) { return first_.contains(source); })) {
        read_.push_back({name, shape->rank, needed});
      } else if (needed) {
        moves_.mixed.insert(sources.begin(), sources.end());
      }
    };
    for (const Node& node : model_.graph.nodes) {
      if (is_shape(node) && node.domain.empty()) continue;
      for (size_t i = 0; i < node.inputs.size(); ++i)
        if (!moves_.nodes.contains(&node) || i >= moved_inputs(node)) want(node.inputs[i]);
    }
    for (const auto* names : {&index_.outputs, &index_.captured})
      for (const auto& name : *names) want(name);
    for (const Node& node : model_.graph.nodes)
      if (is_concat(node)) want(node.outputs[0], false);  // has a scale, whoever reads it
    for (const char* form : {kNumbered, kLeast})
      for (const Read& read : read_) wanted_.push_back({read.name + form, read.rank});
  }

  // The model with every move a second time, on the numbers.
  Model numbered() const {
    Model result = model_;
    result.graph.nodes.clear();
    const auto number = [&](const std::string& name) {
      auto first = first_.find(name);
      if (first == first_.end()) return;
      const auto shape = *shapes_.of(name);
      std::vector<float> numbers(shape.channels);
      std::iota(numbers.begin(), numbers.end(), static_cast<float>(first->second));
      std::vector<int64_t> dims(shape.rank, 1);
      dims[1] = static_cast<int64_t>(shape.channels);
      add_numbered(result.graph, name, float_tensor(std::move(dims), std::move(numbers)), name + kNumbered);
    };
    for (const ValueInfo& input : model_.graph.inputs) number(input.name);
    for (const Node& node : model_.graph.nodes) {
      result.graph.nodes.push_back(node);
      for (const auto& name : node.outputs) number(name);
      if (!moves_.nodes.contains(&node)) continue;
      Node again = node;
      again.name += kNumbered;
      for (size_t i = 0; i < moved_inputs(node); ++i) again.inputs[i] += kNumbered;
      for (auto& name : again.outputs) name += kNumbered;
      result.graph.nodes.push_back(std::move(again));
    }
    const std::string one = std::string("one") + kNumbered, above = std::string("above") + kNumbered;
    result.graph.initializers.push_back({one, float_tensor({}, {1})});
    result.graph.initializers.push_back({above, float_tensor({}, {static_cast<float>(count_ + 1)})});
    for (const Read& read : read_) {
      const std::string least = read.name + kLeast, last = read.name + kNumbered;
      const auto compute = [&](const char* op_type, std::vector<std::string> inputs, std::string output) {
        result.graph.nodes.push_back({output, op_type, "", std::move(inputs), {output}, {}, {}});
        return output;
      };
      const std::string is_zero = compute("Relu", {compute("Sub", {one, last}, least + "_left")}, least + "_is_zero");
      compute("Add", {last, compute("Mul", {is_zero, above}, least + "_above")}, least);
    }
    return result;
  }

  // `least` is the lowest number in each channel, or above all numbers where the channel holds zeros alone.
  void settle(const Read& read, const std::vector<float>& highest, const std::vector<float>& least) {
    std::vector<ChannelOrigin> channels;
    for (size_t c = 0; c < highest.size(); ++c) {
      const bool zeros = highest[c] == 0;
      if (!zeros && !(highest[c] == least[c])) {
        const auto& sources = sources_.at(read.name);
        if (read.needed) moves_.mixed.insert(sources.begin(), sources.end());
        return;
      }
      channels.push_back(zeros ? ChannelOrigin{} : origins_.at(static_cast<size_t>(highest[c]) - 1));
    }
    moves_.origins.emplace(read.name, std::move(channels));
  }

  const Model& model_;
  const GraphView& index_;
  ChannelShapes shapes_;
  ChannelMoves moves_;
  std::unordered_map<std::string, std::set<std::string>> sources_;  // of moved tensors
  std::unordered_map<std::string, size_t> first_;                   // the number of a source's first channel
  std::vector<ChannelOrigin> origins_;                              // by number, less 1
  size_t count_ = 0;
  std::vector<Read> read_;
  std::vector<ChannelTensor> wanted_;
};

}  // namespace

void add_numbered(Graph& graph, const std::string& given, Tensor numbers, const std::string& written) {
  const std::string zero = written + "_zero", nothing = written + "_nothing", added = written + "_numbers";
  graph.initializers.push_back({zero, float_tensor({}, {0})});
  graph.initializers.push_back({added, std::move(numbers)});
  graph.nodes.push_back({nothing, "Mul", "", {given, zero}, {nothing}, {}, {}});
  graph.nodes.push_back({written, "Add", "", {nothing, added}, {written}, {}, {}});
}

ChannelShapes::ChannelShapes(const Model& model) {
  for (const auto* list : {&model.graph.value_info, &model.graph.inputs, &model.graph.outputs})
    for (const ValueInfo& v : *list)
      if (v.shape && v.shape->size() >= 2 && (*v.shape)[1].value > 0)
        shapes_[v.name] = {v.shape->size(), static_cast<size_t>((*v.shape)[1].value)};
}

std::optional<ChannelShapes::Shape> ChannelShapes::of(const std::string& tensor) const {
  auto it = shapes_.find(tensor);
  return it == shapes_.end() ? std::nullopt : std::optional(it->second);
}

ChannelMoves trace_channel_moves(const Model& model, const GraphView& index, const SampleRun& on) {
  return Tracer(model, index).run(on);
}

}  // namespace seqto::internal
