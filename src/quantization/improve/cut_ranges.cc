#include <algorithm>
#include <limits>

#include "model/graph_view.h"
#include "model/op_traits.h"
#include "seqto/improve.h"

namespace seqto {
namespace {

using namespace internal;

constexpr double kNone = std::numeric_limits<double>::infinity();
constexpr Bends kAll{-kNone, kNone, -kNone};

// Between which values of the tensor the reader's answer changes.
Bends bends_of(const Node& reader, const std::string& tensor, const Edges& edges) {
  if (const auto own = bends(reader)) return *own;
  if (!is_mul(reader) || reader.inputs.size() != 2) return kAll;
  const std::string& other = reader.inputs[reader.inputs[0] == tensor ? 1 : 0];
  const Node* gate = edges.producer(other);
  if (!gate || gate->inputs.empty() || gate->inputs[0] != tensor) return kAll;
  const auto gates = bends(*gate);
  return gates ? Bends{gates->low_times, kNone, -kNone} : kAll;
}

}  // namespace

Ranges cut_ranges(const Model& model, Ranges ranges) {
  const GraphView view(model);
  for (auto& [tensor, range] : ranges) {
    const std::vector<const Node*>& readers = view.edges.readers(tensor);
    if (readers.empty() || view.edges.uses(tensor) != readers.size()) continue;
    double low = kNone, high = -kNone;
    for (const Node* reader : readers) {
      const Bends own = bends_of(*reader, tensor, view.edges);
      low = std::min(low, own.low), high = std::max(high, own.high);
    }
    if (low < range.highest) range.lowest = static_cast<float>(std::max<double>(range.lowest, low));
    if (high > range.lowest) range.highest = static_cast<float>(std::min<double>(range.highest, high));
  }
  return ranges;
}

}  // namespace seqto
