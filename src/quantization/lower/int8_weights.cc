// Weights in 8 bits, turned back to float when the runtime loads the model.
#include <fmt/format.h>

#include <unordered_map>

#include "quantization/lower/folded_weights.h"
#include "quantization/lower/writers.h"

namespace seqto::internal {
namespace {

class Int8Weights {
 public:
  Int8Weights(const Model& model, const LayerwiseOptions& options, WeightCache& cache, Encoding& encoding)
      : edit_(model),
        options_(options),
        cache_(cache),
        encoding_(encoding),
        transposed_(transposed_weights(model, [&](const std::string& name) { return edit_.constant(name); })) {}

  Model write(const LayerSet& layers) {
    for (Node& node : edit_.nodes())
      if (layers.contains(node.name)) rewrite(node);
    return edit_.finish();
  }

 private:
  void rewrite(Node& node) {
    auto sites = weight_sites(node, [&](const std::string& name) { return edit_.constant(name); }, transposed_);
    if (sites.empty())
      encoding_.notes.push_back(fmt::format("layer '{}' stays float: it reads no constant weight", node.name));
    for (const WeightSite& site : sites) {
      std::string& input = node.inputs[site.input];
      auto [it, is_new] = dequantized_.try_emplace(site.weight);
      // A weight that several layers share is stored once, as the first of them wants it.
      if (is_new) it->second = dequantized(site.weight, site.grouping, options_.of(node.name).weight_only);
      if (it->second == site.weight)
        encoding_.notes.push_back(fmt::format(
            "weight '{}' of layer '{}' stays float: 8 bits would not make the file smaller", site.weight, node.name));
      if (site.transposed) edit_.turn(input, it->second);
      else input = it->second;
    }
  }

  std::string dequantized(const std::string& name, const Grouping& grouping, const WeightOnlyOptions& options) {
    const Tensor& weight = *edit_.constant(name);
    StoredWeight stored = store_weight(cache_, name, weight, cut_into_blocks(grouping, options.int8_block_size), 8,
                                       options.int8_symmetric);
    if (stored.file_bytes() >= std::ssize(weight.bytes())) return name;
    encoding_.add_weight(name, "folded 8", {stored.codes, stored.scale, stored.zero_point});
    return add_folded(edit_, name, weight.dims(), stored);
  }

  GraphEdit edit_;
  const LayerwiseOptions& options_;
  WeightCache& cache_;
  Encoding& encoding_;
  TransposedWeights transposed_;
  std::unordered_map<std::string, std::string> dequantized_;
};

}  // namespace

Model write_int8_weights(const Model& model, const LayerSet& layers, const LayerwiseOptions& options,
                         WeightCache& cache, Encoding& encoding) {
  return Int8Weights(model, options, cache, encoding).write(layers);
}

}  // namespace seqto::internal
