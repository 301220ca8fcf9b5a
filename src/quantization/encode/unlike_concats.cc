#include "quantization/encode/unlike_concats.h"

#include <algorithm>
#include <cmath>

#include "model/op_traits.h"

namespace seqto::internal {
namespace {

constexpr double kFewest = 16;  // steps

bool moves_all(const Node& n) { return !has(n, kTakesApart) && (moves_values(n) || is_flatten(n) || is_identity(n)); }

double reach(const Range& range) { return std::max(std::abs(range.lowest), std::abs(range.highest)); }

}  // namespace

std::unordered_set<std::string> unlike_concats(const Model& model, const Ranges& ranges, int64_t levels,
                                               const std::function<bool(const Node&)>& quantizable) {
  std::unordered_set<std::string> computed_with;  // as a whole
  for (size_t i = model.graph.nodes.size(); i-- > 0;) {
    const Node& n = model.graph.nodes[i];
    if (n.outputs.empty() || has(n, kTakesApart)) continue;
    const bool passes_on = moves_all(n) || is_concat(n);
    if (passes_on ? computed_with.contains(n.outputs[0]) : quantizable(n))
      computed_with.insert(n.inputs.begin(), n.inputs.end());
  }
  const auto is_unlike = [&](const Node& n) {
    const auto whole = ranges.find(n.outputs[0]);
    return whole != ranges.end() && std::ranges::any_of(n.inputs, [&](const std::string& input) {
             const auto part = ranges.find(input);
             if (part == ranges.end() || reach(part->second) == 0) return false;
             return reach(part->second) * static_cast<double>(levels) < kFewest * reach(whole->second);
           });
  };
  std::unordered_set<std::string> found;
  const auto is_found = [&](const std::string& tensor) { return found.contains(tensor); };
  for (const Node& n : model.graph.nodes) {
    if (n.inputs.empty() || n.outputs.empty()) continue;
    const bool hands_on =
        (moves_all(n) && is_found(n.inputs[0])) || (is_concat(n) && std::ranges::any_of(n.inputs, is_found));
    if (hands_on || (is_concat(n) && is_unlike(n) && !computed_with.contains(n.outputs[0]))) found.insert(n.outputs[0]);
  }
  return found;
}

}  // namespace seqto::internal
