// Weights in blocks of 4 bits: runtime operators that compute on them where there are some, else folded at load.
#include <fmt/format.h>

#include <bit>
#include <unordered_map>

#include "quantization/arithmetic/nbits.h"
#include "quantization/lower/folded_weights.h"
#include "quantization/lower/writers.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

void validate(const WeightOnlyOptions& o, int64_t opset) {
  bool power = o.int4_block_size >= 16 && std::has_single_bit(static_cast<uint64_t>(o.int4_block_size));
  if (!power && o.int4_format == Int4Format::kMatMulNBits)
    throw Error(Code::kUsage,
                fmt::format("[quantize] 4-bit block size {} found; a power of 2, 16 or more, expected, or the format "
                            "folded",
                            o.int4_block_size));
  if (o.bits != 2 && o.bits != 4 && o.bits != 8)
    throw Error(Code::kUsage, fmt::format("[quantize] {} bits found; 2, 4 or 8 expected", o.bits));
  if (o.int4_format == Int4Format::kQdq && opset < 21)
    throw Error(Code::kInvalidInput,
                fmt::format("[quantize] opset {} found; 21 or newer is needed for 4-bit DequantizeLinear; run `seqto "
                            "prepare --min-opset 21` first, or take another 4-bit format",
                            opset));
}

// A matrix that a layer multiplies its input with, seen as [k, n].
struct Matrix {
  int64_t k = 0, n = 0;
  bool rows_are_channels = false;  // stored as [n, k]
};

std::optional<Matrix> matrix_of(const Node& node, const WeightSite& site, const Tensor& weight) {
  if (site.input != 1 || weight.dims().size() != 2 || !node.domain.empty()) return {};
  if (node.op_type != "MatMul" && node.op_type != "Gemm") return {};
  int64_t first = weight.dims()[0], second = weight.dims()[1];
  bool rows = (node.op_type == "Gemm" && node.int_attribute("transB", 0) != 0) != site.transposed;
  return rows ? Matrix{second, first, true} : Matrix{first, second, false};
}

// Gemm that is a matrix product and a sum.
bool is_plain(const Node& node) {
  return node.op_type == "MatMul" ||
         (node.int_attribute("transA", 0) == 0 && node.float_attribute("alpha", 1) == 1.0f &&
          (node.inputs.size() < 3 || node.float_attribute("beta", 1) == 1.0f));
}

// Of codes from 0 to 15; int4 stores 8 less.
Tensor stored_4_bits(DataType type, std::vector<int64_t> dims, std::vector<uint8_t> codes) {
  if (type == DataType::kInt4)
    for (uint8_t& code : codes) code ^= 8;
  return packed_4_bits(type, std::move(dims), codes);
}

class Int4Weights {
 public:
  Int4Weights(const Model& model, const LayerwiseOptions& options, WeightCache& cache, Encoding& encoding)
      : edit_(model),
        layerwise_(options),
        cache_(cache),
        encoding_(encoding),
        transposed_(transposed_weights(model, [&](const std::string& name) { return edit_.constant(name); })) {
    opset_ = model.opset();
    for (const auto* list : {&model.graph.inputs, &model.graph.value_info})
      for (const ValueInfo& v : *list)
        if (v.shape && v.shape->size() == 1) vectors_.insert(v.name);
  }

  Model write(const LayerSet& layers) {
    find_shared(layers);
    std::vector<Node> old = std::move(edit_.nodes());
    edit_.nodes().clear();
    for (Node& node : old) {
      std::optional<Node> sum;
      if (layers.contains(node.name)) sum = rewrite(node);
      edit_.nodes().push_back(std::move(node));
      if (sum) edit_.nodes().push_back(std::move(*sum));
    }
    return edit_.finish();
  }

 private:
  std::vector<WeightSite> sites_of(const Node& node) const {
    return weight_sites(node, [&](const std::string& name) { return edit_.constant(name); }, transposed_);
  }

  // The operator that computes on a weight's codes, as far as it says how they lie; empty: none does.
  std::string operator_of(const Node& node, const WeightSite& site) const {
    const Tensor& weight = *edit_.constant(site.weight);
    auto matrix = matrix_of(node, site, weight);
    if (options_.int4_format == Int4Format::kQdq) return matrix ? "DequantizeLinear" : "";
    if (options_.int4_format != Int4Format::kMatMulNBits) return "";
    if (matrix && is_plain(node) && !vectors_.contains(node.inputs[0]) && pays(*matrix, weight))
      return matrix->rows_are_channels ? "MatMulNBits of rows" : "MatMulNBits of columns";
    return !site.transposed && can_gather(node, weight) ? "GatherBlockQuantized" : "";
  }

  // A weight whose readers would have it in two forms is stored in the one that all of them can read.
  void find_shared(const LayerSet& layers) {
    std::unordered_map<std::string, std::string> operators;
    for (const Node& node : edit_.nodes()) {
      if (!layers.contains(node.name)) continue;
      options_ = layerwise_.of(node.name).weight_only;
      validate(options_, opset_);
      for (const WeightSite& site : sites_of(node)) {
        std::string op = operator_of(node, site);
        if (operators.try_emplace(site.weight, op).first->second != op) unlike_.insert(site.weight);
      }
    }
  }

  // What follows the node, if anything.
  std::optional<Node> rewrite(Node& node) {
    options_ = layerwise_.of(node.name).weight_only;
    validate(options_, opset_);
    auto sites = sites_of(node);
    if (sites.empty())
      encoding_.notes.push_back(fmt::format("layer '{}' stays float: it reads no constant weight", node.name));
    for (const WeightSite& site : sites) {
      const Tensor& weight = *edit_.constant(site.weight);
      const std::string op = unlike_.contains(site.weight) ? "" : operator_of(node, site);
      if (op.starts_with("MatMulNBits")) return matmul_nbits(node, site, *matrix_of(node, site, weight), weight);
      if (op == "GatherBlockQuantized") return gather(node, weight);
      if (op == "DequantizeLinear") give(node, site, dequantized(site.weight, *matrix_of(node, site, weight), weight));
      else folded(node, site, weight);
    }
    return {};
  }

  void give(Node& node, const WeightSite& site, const std::string& restored) {
    std::string& input = node.inputs[site.input];
    if (site.transposed) edit_.turn(input, restored);
    else input = restored;
  }

  // --- com.microsoft operators

  // What tells the forms of one weight apart.
  std::string form_of(int64_t block) const {
    return fmt::format("{} {} {}", block, options_.bits, options_.int4_symmetric);
  }

  // A block longer than the sum would be padding.
  int64_t block_of(int64_t k) const {
    auto shortest = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(k)));
    return std::min(options_.int4_block_size, std::max<int64_t>(16, shortest));
  }

  bool pays(const Matrix& m, const Tensor& weight) const {
    int64_t block = block_of(m.k), blocks = (m.k + block - 1) / block;
    return m.n * blocks * (block * options_.bits / 8 + 5) + 300 < std::ssize(weight.bytes());
  }

  std::vector<float> columns(const Matrix& m, const Tensor& weight) const {
    std::vector<float> values = to_floats(weight);
    return m.rows_are_channels ? values : transposed(std::span<const float>(values), m.k, m.n);
  }

  std::optional<Node> matmul_nbits(Node& node, const WeightSite& site, const Matrix& m, const Tensor& weight) {
    const std::string& name = site.weight;
    int64_t block = block_of(m.k);
    auto key = fmt::format("matmulnbits {} {}\n{}", m.rows_are_channels, form_of(block), name);
    const auto& made = cache_.tensors(key, [&] {
      NbitsRuns q = quantize_nbits(columns(m, weight), m.n, block, options_.bits, options_.int4_symmetric);
      auto middle = static_cast<uint8_t>(1 << (options_.bits - 1));
      auto zero = pack_bits(q.zero_point, m.n, options_.bits, middle);
      auto bytes = static_cast<int64_t>(block * options_.bits / 8), zeros = std::ssize(zero) / m.n;
      return std::vector{
          Tensor::from(DataType::kUint8, {m.n, q.blocks, bytes}, pack_bits(q.codes, m.n * q.blocks, options_.bits)),
          scales_for(weight, q.scale).reshaped({m.n, q.blocks}),
          Tensor::from(DataType::kUint8, {m.n, zeros}, std::move(zero))};
    });
    auto& names = shared_[key];
    if (names.empty()) {
      encoding_.add_weight(name, "matmulnbits " + form_of(block), made);
      names = {edit_.add(fmt::format("{}_Q{}", name, options_.bits), made[0]), edit_.add(name + "_scales", made[1])};
      if (!options_.int4_symmetric) names.push_back(edit_.add(name + "_zero_points", made[2]));
    }
    Node nbits = node;
    nbits.op_type = "MatMulNBits", nbits.domain = "com.microsoft";
    nbits.inputs = {node.inputs[0]};
    nbits.inputs.insert(nbits.inputs.end(), names.begin(), names.end());
    nbits.attributes = {{"K", m.k}, {"N", m.n}, {"bits", int64_t{options_.bits}}, {"block_size", block}};
    if (options_.accuracy_level != 0) nbits.attributes.push_back({"accuracy_level", int64_t{options_.accuracy_level}});
    edit_.require_opset("com.microsoft", 1);
    std::optional<Node> sum;
    if (node.inputs.size() > 2 && !node.inputs[2].empty()) {
      nbits.outputs[0] = edit_.fresh(node.outputs[0] + "_product");
      sum = Node{edit_.fresh(node.name + "_bias"), "Add", "", {nbits.outputs[0], node.inputs[2]}, node.outputs, {}, {}};
    }
    node = std::move(nbits);
    return sum;
  }

  bool can_gather(const Node& node, const Tensor& weight) const {
    const auto& dims = weight.dims();
    if (node.op_type != "Gather" || dims.size() < 2 || dims.back() % 2 != 0 || options_.bits != 4) return false;
    int64_t axis = node.int_attribute("axis", 0), rank = std::ssize(dims);
    int64_t blocks = (dims.back() + options_.int4_block_size - 1) / options_.int4_block_size;
    int64_t rows = weight.element_count() / dims.back();
    bool smaller = weight.element_count() / 2 + rows * blocks * 5 + 300 < std::ssize(weight.bytes());
    return (axis < 0 ? axis + rank : axis) != rank - 1 && smaller;
  }

  std::optional<Node> gather(Node& node, const Tensor& weight) {
    const std::string name = node.inputs[0];
    int64_t last = std::ssize(weight.dims()) - 1, rows = weight.element_count() / weight.dims().back();
    DataType type = options_.int4_symmetric ? DataType::kInt4 : DataType::kUint4;
    auto key = fmt::format("gather {}\n{}", form_of(options_.int4_block_size), name);
    const auto& made = cache_.tensors(key, [&] {
      NbitsRuns q = quantize_gather(to_floats(weight), rows, options_.int4_block_size, options_.int4_symmetric);
      auto scale_dims = weight.dims();
      scale_dims.back() = q.blocks;
      return std::vector{stored_4_bits(type, weight.dims(), q.codes), scales_for(weight, q.scale).reshaped(scale_dims),
                         stored_4_bits(type, scale_dims, q.zero_point)};
    });
    auto& names = shared_[key];
    if (names.empty()) {
      encoding_.add_weight(name, "gather " + form_of(options_.int4_block_size), made);
      names = {edit_.add(name + "_Q4", made[0]), edit_.add(name + "_scales", made[1])};
      if (!options_.int4_symmetric) names.push_back(edit_.add(name + "_zero_points", made[2]));
      edit_.require_ir_version(10);
    }
    node.inputs = {names[0], node.inputs[1], names[1]};
    if (names.size() > 2) node.inputs.push_back(names[2]);
    node.attributes = {{"gather_axis", node.int_attribute("axis", 0)},
                       {"quantize_axis", last},
                       {"block_size", options_.int4_block_size}};
    node.op_type = "GatherBlockQuantized", node.domain = "com.microsoft";
    edit_.require_opset("com.microsoft", 1);
    return {};
  }

  // --- DequantizeLinear

  std::string dequantized(const std::string& name, const Matrix& m, const Tensor& weight) {
    auto& names = shared_[fmt::format("qdq {}\n{}", form_of(options_.int4_block_size), name)];
    if (!names.empty()) return names[0];
    int64_t block = options_.int4_block_size > 0 ? std::min(options_.int4_block_size, m.k) : m.k;
    int64_t blocks = (m.k + block - 1) / block;
    DataType type = options_.int4_symmetric ? DataType::kInt4 : DataType::kUint4;
    auto scale_dims = m.rows_are_channels ? std::vector{m.n, blocks} : std::vector{blocks, m.n};
    const auto& made = cache_.tensors(fmt::format("qdq4 {} {}\n{}", m.rows_are_channels, form_of(block), name), [&] {
      NbitsRuns q = quantize_nbits(columns(m, weight), m.n, block, 4, options_.int4_symmetric, true);
      // Without the padding of the last block, in the weight's own order.
      std::vector<uint8_t> codes;
      for (int64_t r = 0; r < m.n; ++r) {
        auto row = q.codes.begin() + r * blocks * block;
        codes.insert(codes.end(), row, row + m.k);
      }
      if (!m.rows_are_channels) {
        codes = transposed(std::span<const uint8_t>(codes), m.n, m.k);
        q.scale = transposed(std::span<const float>(q.scale), m.n, blocks);
        q.zero_point = transposed(std::span<const uint8_t>(q.zero_point), m.n, blocks);
      }
      return std::vector{stored_4_bits(type, weight.dims(), codes), scales_for(weight, q.scale).reshaped(scale_dims),
                         stored_4_bits(type, scale_dims, q.zero_point)};
    });
    encoding_.add_weight(name, "qdq " + form_of(block), made);
    std::vector<std::string> inputs{edit_.add(name + "_DQ_Q4", made[0]), edit_.add(name + "_DQ_scales", made[1])};
    if (!options_.int4_symmetric) inputs.push_back(edit_.add(name + "_DQ_zero_points", made[2]));
    edit_.require_ir_version(10);
    names = {edit_.compute("DequantizeLinear", inputs, name + "_DQ_Q4_output",
                           {{"axis", int64_t{m.rows_are_channels ? 1 : 0}}, {"block_size", block}})};
    return names[0];
  }

  // --- folded

  void folded(Node& node, const WeightSite& site, const Tensor& weight) {
    auto& names = shared_[fmt::format("folded {}\n{}", form_of(options_.int4_block_size), site.weight)];
    if (names.empty()) names = {restored(node.name, site.weight, site.grouping, weight)};
    give(node, site, names[0]);
  }

  // The weight in whichever of 4, 8 and 32 bits is smallest: scales and nodes outweigh the codes of a small one.
  std::string restored(const LayerId& layer, const std::string& name, const Grouping& grouping, const Tensor& weight) {
    StoredWeight four = store_weight(cache_, name, weight, cut_into_blocks(grouping, options_.int4_block_size), 4,
                                     options_.int4_symmetric);
    StoredWeight eight = store_weight(cache_, name, weight, cut_into_blocks(grouping, options_.int8_block_size), 8,
                                      options_.int8_symmetric);
    int64_t whole = std::ssize(weight.bytes()), smallest = std::min(four.file_bytes(), eight.file_bytes());
    bool stays = smallest >= whole;
    const StoredWeight& stored = four.file_bytes() == smallest ? four : eight;
    if (!stays)
      encoding_.add_weight(name, fmt::format("folded {}", stored.bits),
                           {stored.codes, stored.scale, stored.zero_point});
    if (!stays && stored.bits == 4) return add_folded(edit_, name, weight.dims(), four);
    encoding_.notes.push_back(fmt::format("weight '{}' of layer '{}' {}: 4 bits would not make the file smaller", name,
                                          layer, stays ? "stays float" : "is stored in 8 bits"));
    return stays ? name : add_folded(edit_, name, weight.dims(), eight);
  }

  GraphEdit edit_;
  const LayerwiseOptions& layerwise_;
  int64_t opset_ = 0;
  WeightOnlyOptions options_;  // of the layer that is rewritten
  WeightCache& cache_;
  Encoding& encoding_;
  TransposedWeights transposed_;
  std::unordered_set<std::string> vectors_;                           // tensors of rank 1
  std::unordered_set<std::string> unlike_;                            // weights whose readers want unlike forms
  std::unordered_map<std::string, std::vector<std::string>> shared_;  // what a weight became, by form and name
};

}  // namespace

Model write_int4_weights(const Model& model, const LayerSet& layers, const LayerwiseOptions& options,
                         WeightCache& cache, Encoding& encoding) {
  return Int4Weights(model, options, cache, encoding).write(layers);
}

}  // namespace seqto::internal
