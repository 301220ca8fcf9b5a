// Weights in 8 bits, turned back to float when the runtime loads the model.
#include <fmt/format.h>

#include <unordered_map>

#include "model/float16.h"
#include "quantization/folded_weights.h"
#include "quantization/writers.h"

namespace seqto::internal {
namespace {

// What two more initializers and two to five more nodes take in the file, about.
constexpr int64_t kOverheadBytes = 256;

Tensor in_type_of(const Tensor& weight, std::vector<float> values) {
  std::vector<int64_t> dims{std::ssize(values)};
  if (weight.type() == DataType::kFloat) return float_tensor(dims, std::move(values));
  std::vector<uint16_t> halves;
  for (float v : values) halves.push_back(float_to_half(v));
  return Tensor::from(DataType::kFloat16, dims, std::move(halves));
}

// The part of a tensor that begins at index `begin` of its first axis, over the others.
Tensor slice(const Tensor& tensor, int64_t begin) {
  std::vector<int64_t> dims(tensor.dims().begin() + 1, tensor.dims().end());
  size_t bytes = tensor.bytes().size() / static_cast<size_t>(tensor.dims()[0]);
  auto owner = std::make_shared<const Tensor>(tensor);
  return Tensor(tensor.type(), dims, owner, tensor.bytes().subspan(static_cast<size_t>(begin) * bytes, bytes));
}

StoredWeight quantize_blocks(const Tensor& weight, const Cut& cut, const WeightRule& rule) {
  Grouping g = cut.blocks;
  if (g.before == 1) g = {1, 1, g.outer * g.channels, g.after};  // one run for all
  Tensor blocks = pad(weight, cut).reshaped({g.outer, g.before, g.channels, g.after});
  std::vector<std::byte> codes;
  std::vector<float> scale, zero_point;
  StoredWeight stored{cut, {}, {}, {}};
  for (int64_t o = 0; o < g.outer; ++o) {
    Tensor part = slice(blocks, o);
    QuantParams params = weight_params(part, rule);
    Tensor q = quantize(part, params);
    scale.insert(scale.end(), params.scale.begin(), params.scale.end());
    zero_point.insert(zero_point.end(), params.zero_point.begin(), params.zero_point.end());
    if (g.outer == 1) stored.codes = q;
    else codes.insert(codes.end(), q.bytes().begin(), q.bytes().end());
  }
  if (g.outer > 1) stored.codes = Tensor::from(rule.type, blocks.dims(), std::move(codes));
  stored.scale = in_type_of(weight, std::move(scale));
  if (!rule.symmetric) stored.zero_point = in_type_of(weight, std::move(zero_point));
  return stored;
}

class Int8Weights {
 public:
  Int8Weights(const Model& model, const QuantizeOptions& options, WeightCache& cache, std::vector<std::string>& notes)
      : edit_(model), options_(options.weight_only), cache_(cache), notes_(notes) {}

  Model write(const LayerSet& layers) {
    for (Node& node : edit_.nodes())
      if (layers.contains(node.name)) rewrite(node);
    return edit_.finish();
  }

 private:
  void rewrite(Node& node) {
    auto sites = weight_sites(node, [&](const std::string& name) { return edit_.constant(name); });
    if (sites.empty()) notes_.push_back(fmt::format("layer '{}' stays float: it reads no constant weight", node.name));
    for (const WeightSite& site : sites) {
      std::string& input = node.inputs[site.input];
      auto [it, is_new] = dequantized_.try_emplace(input);
      // A weight that several layers share is stored once, as the first of them wants it.
      if (is_new) it->second = dequantized(input, site.grouping);
      if (it->second == input)
        notes_.push_back(
            fmt::format("weight '{}' of layer '{}' stays float: 8 bits would not make the file smaller", input,
                        node.name));
      input = it->second;
    }
  }

  std::string dequantized(const std::string& name, const Grouping& grouping) {
    const Tensor& weight = *edit_.constant(name);
    WeightRule rule{.type = options_.int8_symmetric ? DataType::kInt8 : DataType::kUint8,
                    .symmetric = options_.int8_symmetric,
                    .reduce_range = false,
                    .min_real_range = {},
                    .axis = 1};
    Cut cut = cut_into_blocks(grouping, options_.int8_block_size);
    const Grouping& b = cut.blocks;
    auto key = fmt::format("int8_weights\n{}\n{} {} {} {}", name, b.outer, b.before, b.channels, b.after);
    const auto& made = cache_.tensors(key, [&] {
      StoredWeight s = quantize_blocks(weight, cut, rule);
      return std::vector{s.codes, s.scale, s.zero_point};
    });
    StoredWeight stored{cut, made[0], made[1], made[2]};
    auto before = static_cast<int64_t>(weight.bytes().size());
    if (stored.size_bytes() + kOverheadBytes >= before) return name;
    return add_folded(edit_, name, weight.dims(), stored);
  }

  GraphEdit edit_;
  const WeightOnlyOptions& options_;
  WeightCache& cache_;
  std::vector<std::string>& notes_;
  std::unordered_map<std::string, std::string> dequantized_;
};

}  // namespace

Model write_int8_weights(const Model& model, const LayerSet& layers, const QuantizeOptions& options, WeightCache& cache,
                         std::vector<std::string>& notes) {
  return Int8Weights(model, options, cache, notes).write(layers);
}

}  // namespace seqto::internal
