#include "quantization/plan/shared_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <unordered_map>

#include "model/sort_nodes.h"
#include "quantization/plan/weight_sites.h"

namespace seqto::internal {
namespace {

// Computed from constants alone.
bool is_constant(const Node& node, const GraphView& index, const std::unordered_map<std::string, std::string>& roots) {
  return !node.inputs.empty() && std::ranges::all_of(node.inputs, [&](const std::string& name) {
    return name.empty() || roots.contains(name) || index.constant(name);
  });
}

bool is_stored_only(Scheme scheme, const QuantizeOptions& options) {
  return scheme == Scheme::kInt8Weights || scheme == Scheme::kInt4Weights ||
         (scheme == Scheme::kFloat16 && !options.float16.compute);
}

int bits_of(const Decision& decision, const QuantizeOptions& options) {
  switch (decision.scheme) {
    case Scheme::kFloat16:
      return 16;
    case Scheme::kInt8Weights:
      return 8;
    case Scheme::kInt4Weights:
      return decision.fields && decision.fields->bits ? static_cast<int>(*decision.fields->bits)
                                                      : options.weight_only.bits;
    default:
      return 32;
  }
}

// Equal for equal decisions. The least is the finest.
auto rank(const Decision& decision, const QuantizeOptions& options) {
  return std::tuple(-bits_of(decision, options), decision.scheme, decision.fields ? *decision.fields : LayerOptions());
}

}  // namespace

std::vector<SharedWeight> shared_weights(const Model& model, const GraphView& index) {
  const auto& nodes = model.graph.nodes;
  auto constant = [&](const std::string& name) { return index.constant(name); };
  const TransposedWeights transposed = transposed_weights(model, constant);
  std::unordered_map<std::string, std::string> roots;  // tensor -> the float constant that it is made of
  std::map<std::string, SharedWeight> found;
  std::unordered_set<std::string> weights;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    std::unordered_set<std::string> read;
    for_each_read(node, [&](const std::string& name) {
      if (auto it = roots.find(name); it != roots.end()) read.insert(it->second);
      else if (const Tensor* tensor = index.constant(name); tensor && tensor->is_float()) read.insert(name);
    });
    if (is_constant(node, index, roots) && weight_sites(node, constant).empty()) {
      for (const std::string& output : node.outputs)
        if (!read.empty()) roots[output] = *std::ranges::min_element(read);
      if (read.size() < 2) continue;  // several: whoever reads what they make
    }
    for (const std::string& name : read) found[name].readers.push_back(i);
    for (const WeightSite& site : weight_sites(node, constant, transposed)) weights.insert(site.weight);
  }
  std::vector<SharedWeight> result;
  for (auto& [name, shared] : found) {
    if (shared.readers.size() < 2 || !weights.contains(name)) continue;
    result.push_back({name, std::move(shared.readers)});
  }
  return result;
}

std::vector<std::string> settle_shared_weights(const Model& model, const std::vector<SharedWeight>& shared,
                                               const QuantizeOptions& options, std::vector<Decision>& decisions) {
  std::vector<std::string> notes;
  auto settle = [&](const SharedWeight& weight) {
    // What is left in float beside a static layer reads that one's codes.
    const bool any_static =
        std::ranges::any_of(weight.readers, [&](size_t i) { return is_static(decisions[i].scheme); });
    std::vector<size_t> stored;
    for (size_t i : weight.readers)
      if (is_stored_only(decisions[i].scheme, options) || (decisions[i].scheme == Scheme::kFloat32 && !any_static))
        stored.push_back(i);
    if (stored.empty()) return false;
    const size_t first =
        *std::ranges::min_element(stored, std::less(), [&](size_t i) { return rank(decisions[i], options); });
    const Decision finest = decisions[first];
    std::vector<std::string> changed;
    for (size_t i : stored) {
      if (rank(decisions[i], options) == rank(finest, options)) continue;
      decisions[i] = finest;
      changed.push_back(fmt::format("'{}'", model.graph.nodes[i].name));
    }
    if (changed.empty()) return false;
    notes.push_back(
        fmt::format("layer {} is written in {}, as '{}' with which it shares weight '{}': a second copy would "
                    "make the file larger; give them one scheme",
                    fmt::join(changed, ", "), to_string(finest.scheme), model.graph.nodes[first].name, weight.name));
    return true;
  };
  // A layer may share one weight with one layer and another with the next; decisions only become finer, so this ends.
  for (bool again = true; again;) {
    again = false;
    for (const SharedWeight& weight : shared) again |= settle(weight);
  }
  return notes;
}

}  // namespace seqto::internal
