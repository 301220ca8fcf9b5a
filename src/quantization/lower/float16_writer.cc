// Weights in float16, turned back to float when the runtime loads the model.
#include <fmt/format.h>

#include <unordered_map>

#include "quantization/arithmetic/halves.h"
#include "quantization/improve/graph_edit.h"
#include "quantization/lower/float16_compute.h"
#include "quantization/lower/writers.h"
#include "quantization/plan/weight_sites.h"

namespace seqto::internal {
namespace {

// What a Cast and its names take in the file, about.
constexpr int64_t kOverheadBytes = 128;

bool shrinks(const Tensor* constant) {
  return constant && constant->type() == DataType::kFloat && std::ssize(constant->bytes()) > 2 * kOverheadBytes;
}

}  // namespace

Model write_float16(const Model& model, const LayerSet& layers, const QuantizeOptions& options, WeightCache& cache,
                    Encoding& encoding) {
  if (options.float16.compute) return compute_in_float16(model, layers, options.float16, cache, encoding.notes);
  GraphEdit edit(model);
  const TransposedWeights transposed =
      transposed_weights(model, [&](const std::string& name) { return edit.constant(name); });
  std::unordered_map<std::string, std::string> restored;
  for (Node& node : edit.nodes()) {
    if (!layers.contains(node.name)) continue;
    for (std::string& input : node.inputs) {
      auto turned = transposed.find(input);
      const std::string name = turned == transposed.end() ? input : turned->second;
      const Tensor* constant = edit.constant(name);
      if (!shrinks(constant)) continue;
      auto [it, is_new] = restored.try_emplace(name);
      if (is_new) {
        const auto& halves = cache.tensors("float16\n" + name, [&] {
          return std::vector{to_halves(name, *constant, options.float16, encoding.notes)};
        });
        encoding.add_weight(name, "float16", halves);
        std::string stored = edit.add(name + "_float16", halves[0]);
        it->second = edit.compute("Cast", {stored}, name + "_float", {{"to", static_cast<int64_t>(DataType::kFloat)}});
      }
      if (turned != transposed.end()) edit.turn(input, it->second);
      else input = it->second;
    }
  }
  return edit.finish();
}

}  // namespace seqto::internal
