// Weights in 8 bits, in blocks of 4 bits and in float16. In blocks: for the runtime's operators that compute on them
// where there are some, else folded at load.
#include "quantization/encode/encode_weights.h"

#include <fmt/format.h>

#include <bit>
#include <set>
#include <unordered_map>

#include "model/op_traits.h"
#include "quantization/arithmetic/halves.h"
#include "quantization/arithmetic/nbits.h"
#include "quantization/plan/overrides.h"
#include "quantization/plan/validate_options.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

// What a Cast and its names take in the file, about.
constexpr int64_t kOverheadBytes = 128;

void validate(const WeightOnlyOptions& o, int64_t opset) {
  validate_low_bits(o);
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

  int64_t axis() const { return rows_are_channels ? 1 : 0; }  // that is summed over
};

std::optional<Matrix> matrix_of(const Node& node, const WeightSite& site, const Tensor& weight) {
  if (site.input != 1 || weight.dims().size() != 2 || !node.domain.empty() || !has(node, kMatrixProduct)) return {};
  int64_t first = weight.dims()[0], second = weight.dims()[1];
  bool rows = (is_gemm(node) && node.int_attribute("transB", 0) != 0) != site.transposed;
  return rows ? Matrix{second, first, true} : Matrix{first, second, false};
}

// Gemm that is a matrix product and a sum.
bool is_plain(const Node& node) {
  return is_matmul(node) || (node.int_attribute("transA", 0) == 0 && node.float_attribute("alpha", 1) == 1.0f &&
                             (node.inputs.size() < 3 || node.float_attribute("beta", 1) == 1.0f));
}

// Of codes from 0 to 15; int4 stores 8 less.
Tensor stored_4_bits(DataType type, std::vector<int64_t> dims, std::vector<uint8_t> codes) {
  if (type == DataType::kInt4)
    for (uint8_t& code : codes) code ^= 8;
  return packed_4_bits(type, std::move(dims), codes);
}

// `then` of the values, which are not copied where they are floats, and need not stay in memory behind it.
template <class F>
NbitsRuns of_floats(const Tensor& weight, F then) {
  NbitsRuns runs = weight.type() == DataType::kFloat ? then(Floats(weight)) : then(Floats(to_floats(weight)));
  weight.release();
  return runs;
}

// The runs are the matrix's channels.
NbitsRuns quantize_matrix(const Matrix& m, const Tensor& weight, const NbitsRule& rule) {
  return of_floats(weight, [&](Floats values) {
    return m.rows_are_channels ? quantize_nbits(values, m.n, rule) : quantize_nbits_columns(values, m.n, rule);
  });
}

class Encoder {
 public:
  Encoder(const Model& model, const LayerwiseOptions& options, WeightCache& cache)
      : model_(model),
        view_(model),
        layerwise_(options),
        exact_(options.common().compat_onnxruntime),
        cache_(cache),
        transposed_(transposed_weights(model, constant_)) {
    for (const auto* list : {&model.graph.inputs, &model.graph.value_info})
      for (const ValueInfo& v : *list)
        if (v.shape && v.shape->size() == 1) vectors_.insert(v.name);
  }

  Encoding run(Scheme scheme, const LayerSet& layers) {
    if (scheme == Scheme::kInt4Weights) {
      validate_low_bits(layerwise_.common().weight_only);  // before a newer opset is asked for in vain
      find_unlike(layers);
    }
    for (const Node& node : model_.graph.nodes) {
      if (!layers.contains(node.name)) continue;
      if (scheme == Scheme::kFloat16) encode_halves(node);
      else encode(node, scheme);
    }
    if (in_4_for_2_ > 0)
      note("{} weight{} in 4 bits instead of 2, which MatMul and Gemm alone take", in_4_for_2_,
           in_4_for_2_ == 1 ? " is" : "s are");
    return std::move(result_);
  }

 private:
  void encode(const Node& node, Scheme scheme) {
    options_ = layerwise_.of(node.name).weight_only;
    const auto sites = weight_sites(node, constant_, transposed_);
    if (sites.empty()) note("layer '{}' stays float: it reads no constant weight", node.name);
    for (const WeightSite& site : sites) {
      if (scheme == Scheme::kInt8Weights) encode_8_bits(node, site);
      else encode_4_bits(node, site);
    }
  }

  template <class... Args>
  void note(fmt::format_string<Args...> text, Args&&... args) {
    result_.notes.push_back(fmt::format(text, std::forward<Args>(args)...));
  }

  // One more reader of the weight that `make` gives for the first one, or not: it is stored once, as the first of them
  // wants it. False where it stays as it is.
  template <class F>
  bool read(const std::string& form, const Node& node, const WeightSite& site, F make) {
    auto [it, is_new] = places_.try_emplace(form + "\n" + site.weight);
    if (is_new) {
      if (std::optional<EncodedWeight> made = make(*constant_(site.weight))) {
        it->second = result_.weights.size();
        made->name = site.weight;
        result_.weights.push_back(std::move(*made));
      }
    }
    if (!it->second) return false;
    result_.weights[*it->second].readers.push_back(
        {node.name, view_.edges.place(node), site.input, site.transposed, accuracy_level()});
    return true;
  }

  // The runtime computes in float32 on 4 bits alone: with others it makes a float weight in each run.
  int accuracy_level() const {
    const bool is_slow = options_.accuracy_level == 0 && options_.bits != 4 && !exact_;
    return is_slow ? 4 : options_.accuracy_level;
  }

  // --- float16

  void encode_halves(const Node& node) {
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      auto turned = transposed_.find(node.inputs[k]);
      const bool is_turned = turned != transposed_.end();
      const std::string& name = is_turned ? turned->second : node.inputs[k];
      const Tensor* constant = constant_(name);
      if (!constant || constant->type() != DataType::kFloat || std::ssize(constant->bytes()) <= 2 * kOverheadBytes)
        continue;
      read("float16", node, {k, {}, name, is_turned}, [&](const Tensor& weight) {
        const HalfTensor& halves = cache_.halves(name, weight, layerwise_.common().float16);
        if (!halves.note.empty()) result_.notes.push_back(halves.note);
        return std::optional(EncodedWeight{.form = StoredForm::kFloat16, .stored = {.codes = halves.values}});
      });
    }
  }

  // --- 8 bits

  void encode_8_bits(const Node& node, const WeightSite& site) {
    read("folded", node, site, [&](const Tensor& weight) { return in_8_bits(node.name, site, weight); });
  }

  std::optional<EncodedWeight> in_8_bits(const LayerId& layer, const WeightSite& site, const Tensor& weight) {
    StoredWeight stored = folded(site, weight, 8);
    if (stored.file_bytes() < std::ssize(weight.bytes())) return EncodedWeight{.stored = std::move(stored)};
    note("weight '{}' of layer '{}' stays float: 8 bits would not make the file smaller", site.weight, layer);
    return {};
  }

  StoredWeight folded(const WeightSite& site, const Tensor& weight, int bits) {
    const auto& o = options_;
    return store_weight(cache_, site.weight, weight,
                        cut_into_blocks(site.grouping, bits == 4 ? o.int4_block_size : o.int8_block_size), bits,
                        bits == 4 ? o.int4_symmetric : o.int8_symmetric);
  }

  // --- 4 bits

  // The form that a weight's reader wants, as far as it says how the codes lie: rows are outputs of a product.
  using Form = std::pair<StoredForm, bool>;
  Form form_for(const Node& node, const WeightSite& site) const {
    const Tensor& weight = *constant_(site.weight);
    const auto matrix = matrix_of(node, site, weight);
    const bool in_operators = options_.int4_format == Int4Format::kMatMulNBits;
    if (options_.int4_format == Int4Format::kQdq && options_.bits == 4 && matrix)
      return {StoredForm::kDequantize, false};
    if (in_operators && matrix && is_plain(node) && !vectors_.contains(node.inputs[0]) && pays(*matrix, weight))
      return {StoredForm::kMatMulNBits, matrix->rows_are_channels};
    if (in_operators && !site.transposed && can_gather(node, weight))
      return {StoredForm::kGather, can_gather_outputs(weight)};
    return {StoredForm::kFolded, false};
  }

  // The codes of a product with these rows are those of a table, if no row is padded.
  bool can_gather_outputs(const Tensor& weight) const {
    const auto& dims = weight.dims();
    return !exact_ && options_.bits != 2 && dims.size() == 2 && dims[1] % block_of(dims[1]) == 0 &&
           tied_block_of(dims[1]) >= 16;
  }

  // Two zero points of 4 bits share a byte. A product's rows begin at a byte of their own; of a table releases up
  // to 1.24 read on where the row before ended (onnxruntime issue 26506). An even number of blocks is the same to both.
  int64_t tied_block_of(int64_t k) const {
    const int64_t block = block_of(k);
    const bool is_odd = options_.bits == 4 && !options_.int4_symmetric && k / block % 2 == 1;
    return is_odd ? block / 2 : block;
  }

  // A weight whose readers would have it in two forms is stored in the one that all of them can read.
  void find_unlike(const LayerSet& layers) {
    using enum StoredForm;
    std::unordered_map<std::string, std::set<Form>> forms;
    for (const Node& node : model_.graph.nodes) {
      if (!layers.contains(node.name)) continue;
      options_ = layerwise_.of(node.name).weight_only;
      validate(options_, view_.opset);
      for (const WeightSite& site : weight_sites(node, constant_, transposed_))
        forms[site.weight].insert(form_for(node, site));
    }
    for (const auto& [weight, wanted] : forms)
      if (wanted == std::set<Form>{{kGather, true}, {kMatMulNBits, true}}) tied_.insert(weight);
      else if (wanted.size() > 1) unlike_.insert(weight);
  }

  void encode_4_bits(const Node& node, const WeightSite& site) {
    using enum StoredForm;
    const auto form = unlike_.contains(site.weight) ? kFolded
                      : tied_.contains(site.weight) ? kMatMulNBits
                                                    : form_for(node, site).first;
    const std::string key = fmt::format("{} {} {}", options_.int4_block_size, options_.bits, options_.int4_symmetric);
    read(fmt::format("{} {}", static_cast<int>(form), key), node, site,
         [&](const Tensor& weight) -> std::optional<EncodedWeight> {
           if (form == kMatMulNBits) return nbits(site.weight, matrix_of(node, site, weight), weight);
           std::optional<EncodedWeight> made;
           if (form == kGather) made = gather(site.weight, weight);
           else if (form == kDequantize) made = blocks(site.weight, *matrix_of(node, site, weight), weight);
           else made = smallest(node.name, site, weight);
           if (made && made->stored.bits == 4 && options_.bits == 2) ++in_4_for_2_;
           return made;
         });
  }

  // Made once for all candidates.
  template <class F>
  EncodedWeight made(const std::string& name, StoredForm form, const Matrix& m, int64_t block, F make) {
    const bool symmetric = options_.int4_symmetric;
    const int bits = form == StoredForm::kMatMulNBits ? options_.bits : form == StoredForm::kGather ? table_bits() : 4;
    const auto& tensors = cache_.tensors(
        fmt::format("stored {} {} {} {} {}\n{}", static_cast<int>(form), m.axis(), block, bits, symmetric, name), make);
    StoredWeight stored{{}, bits, tensors[0], tensors[1], {}};
    if (!symmetric) stored.zero_point = tensors[2];
    return {.form = form, .stored = std::move(stored), .block_size = block, .axis = m.axis()};
  }

  // A block longer than the sum would be padding; onnxruntime pads.
  int64_t block_of(int64_t k) const {
    if (exact_) return options_.int4_block_size;
    auto shortest = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(k)));
    return std::min(options_.int4_block_size, std::max<int64_t>(16, shortest));
  }

  bool pays(const Matrix& m, const Tensor& weight) const {
    if (exact_) return true;
    int64_t block = block_of(m.k), blocks = (m.k + block - 1) / block;
    return m.n * blocks * (block * options_.bits / 8 + 5) + 300 < std::ssize(weight.bytes());
  }

  NbitsRule rule(const Tensor& weight, int64_t block, int bits = 4) const {
    return {.block_size = block,
            .bits = bits,
            .symmetric = options_.int4_symmetric,
            .halves = weight.type() == DataType::kFloat16};
  }

  // `matrix`: nothing of a table.
  EncodedWeight nbits(const std::string& name, const std::optional<Matrix>& matrix, const Tensor& weight) {
    const Matrix m = matrix ? *matrix : Matrix{weight.dims()[1], weight.dims()[0], true};
    const int64_t block = tied_.contains(name) ? tied_block_of(m.k) : block_of(m.k);
    if (block != block_of(m.k))
      note("weight '{}' has blocks of {}: a table that a product reads needs an even number of them", name, block);
    return made(name, StoredForm::kMatMulNBits, m, block, [&] {
      NbitsRuns q = quantize_matrix(m, weight, rule(weight, block, options_.bits));
      auto middle = static_cast<uint8_t>(1 << (options_.bits - 1));
      auto zero = pack_bits(q.zero_point, m.n, options_.bits, middle);
      auto bytes = static_cast<int64_t>(block * options_.bits / 8), zeros = std::ssize(zero) / m.n;
      return std::vector{
          Tensor::from(DataType::kUint8, {m.n, q.blocks, bytes}, pack_bits(q.codes, m.n * q.blocks, options_.bits)),
          scales_for(weight, q.scale).reshaped({m.n, q.blocks}),
          Tensor::from(DataType::kUint8, {m.n, zeros}, std::move(zero))};
    });
  }

  bool can_gather(const Node& node, const Tensor& weight) const {
    const auto& dims = weight.dims();
    if (!is_gather(node) || dims.size() < 2 || dims.back() % 2 != 0 || (exact_ && options_.bits != 4)) return false;
    const auto axis = normalized_axis(node.int_attribute("axis", 0), dims.size());
    int64_t blocks = (dims.back() + options_.int4_block_size - 1) / options_.int4_block_size;
    int64_t rows = weight.element_count() / dims.back();
    bool smaller = weight.element_count() * table_bits() / 8 + rows * blocks * 5 + 300 < std::ssize(weight.bytes());
    return axis != std::ssize(dims) - 1 && (smaller || exact_);
  }

  int table_bits() const { return options_.bits == 8 ? 8 : 4; }

  DataType type_of_4_bits() const { return options_.int4_symmetric ? DataType::kInt4 : DataType::kUint4; }

  EncodedWeight gather(const std::string& name, const Tensor& weight) {
    EncodedWeight result = made(name, StoredForm::kGather, {}, options_.int4_block_size, [&] {
      const int64_t rows = weight.element_count() / weight.dims().back();
      NbitsRuns q = of_floats(weight, [&](Floats values) {
        return quantize_gather(values, rows, rule(weight, options_.int4_block_size, table_bits()));
      });
      auto scale_dims = weight.dims();
      scale_dims.back() = q.blocks;
      const auto stored = [&](const std::vector<int64_t>& dims, std::vector<uint8_t> codes) {
        return table_bits() == 8 ? Tensor::from(DataType::kUint8, dims, std::move(codes))
                                 : stored_4_bits(type_of_4_bits(), dims, std::move(codes));
      };
      return std::vector{stored(weight.dims(), q.codes), scales_for(weight, q.scale).reshaped(scale_dims),
                         stored(scale_dims, q.zero_point)};
    });
    result.axis = std::ssize(weight.dims()) - 1;
    return result;
  }

  // For DequantizeLinear.
  EncodedWeight blocks(const std::string& name, const Matrix& m, const Tensor& weight) {
    const int64_t asked = options_.int4_block_size, block = asked <= 0 ? m.k : exact_ ? asked : std::min(asked, m.k);
    return made(name, StoredForm::kDequantize, m, block, [&] {
      const int64_t blocks = (m.k + block - 1) / block;
      const auto scale_dims = m.rows_are_channels ? std::vector{m.n, blocks} : std::vector{blocks, m.n};
      NbitsRule of_pairs = rule(weight, block);
      of_pairs.round_first = true;
      NbitsRuns q = quantize_matrix(m, weight, of_pairs);
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
      return std::vector{stored_4_bits(type_of_4_bits(), weight.dims(), codes),
                         scales_for(weight, q.scale).reshaped(scale_dims),
                         stored_4_bits(type_of_4_bits(), scale_dims, q.zero_point)};
    });
  }

  // The weight in whichever of 4, 8 and 32 bits is smallest: scales and nodes outweigh the codes of a small one.
  std::optional<EncodedWeight> smallest(const LayerId& layer, const WeightSite& site, const Tensor& weight) {
    if (options_.bits == 8) return in_8_bits(layer, site, weight);
    StoredWeight four = folded(site, weight, 4), eight = folded(site, weight, 8);
    const bool stays = std::min(four.file_bytes(), eight.file_bytes()) >= std::ssize(weight.bytes());
    if (!stays && four.file_bytes() <= eight.file_bytes()) return EncodedWeight{.stored = std::move(four)};
    note("weight '{}' of layer '{}' {}: 4 bits would not make the file smaller", site.weight, layer,
         stays ? "stays float" : "is stored in 8 bits");
    if (stays) return {};
    return EncodedWeight{.stored = std::move(eight)};
  }

  const Model& model_;
  GraphView view_;
  const LayerwiseOptions& layerwise_;
  const bool exact_;           // the blocks of onnxruntime's MatMulNBitsQuantizer, also where they make no file smaller
  WeightOnlyOptions options_;  // of the layer that is encoded
  WeightCache& cache_;
  const ConstantOf constant_ = [this](const std::string& name) { return view_.constant(name); };
  TransposedWeights transposed_;
  std::unordered_set<std::string> vectors_;                        // tensors of rank 1
  std::unordered_set<std::string> unlike_;                         // weights whose readers want unlike forms
  std::unordered_set<std::string> tied_;                           // tables that products read as MatMulNBits does
  std::unordered_map<std::string, std::optional<size_t>> places_;  // by form and name; none: stays as it is
  int in_4_for_2_ = 0;                                             // weights in 4 bits of layers that 2 were asked for
  Encoding result_;
};

}  // namespace

Encoding encode_weights(const Model& model, Scheme scheme, const LayerSet& layers, const LayerwiseOptions& options,
                        WeightCache& cache) {
  return Encoder(model, options, cache).run(scheme, layers);
}

}  // namespace seqto::internal
