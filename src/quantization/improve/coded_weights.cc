#include "quantization/improve/coded_weights.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "model/op_traits.h"
#include "quantization/arithmetic/arithmetic.h"
#include "quantization/arithmetic/nbits.h"

namespace seqto::internal {
namespace {

int64_t product(std::span<const int64_t> dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

std::vector<int32_t> whole_numbers(const Tensor& tensor) {
  std::vector<int32_t> values;
  for (int64_t i = 0; i < tensor.element_count(); ++i) values.push_back(static_cast<int32_t>(element(tensor, i)));
  return values;
}

// Scales, from the left filled up with 1, are 1 or as long as the codes on every axis.
bool broadcasts(CodedWeight& w) {
  if (w.scale_dims.size() > w.code_dims.size()) return false;
  w.scale_dims.insert(w.scale_dims.begin(), w.code_dims.size() - w.scale_dims.size(), 1);
  for (size_t a = 0; a < w.code_dims.size(); ++a) {
    int64_t parts = a == w.block_axis ? (w.code_dims[a] + w.block - 1) / w.block : w.code_dims[a];
    if (w.scale_dims[a] != 1 && w.scale_dims[a] != parts) return false;
  }
  return true;
}

bool take_scale(const Tensor& scale, CodedWeight& w) {
  if (scale.type() != DataType::kFloat) return false;
  w.scale = to_floats(scale);
  return !w.scale.empty();
}

bool fits(const CodedWeight& w) { return w.zero_point.size() == 1 || w.zero_point.size() == w.scale.size(); }

// [rows, bytes] to [rows, codes a row].
std::vector<int32_t> unpacked_rows(std::span<const uint8_t> bytes, int bits) {
  std::vector<int32_t> codes;
  codes.reserve(bytes.size() * 8 / static_cast<size_t>(bits));
  for (uint8_t byte : bytes)
    for (int shift = 0; shift < 8; shift += bits) codes.push_back((byte >> shift) & ((1 << bits) - 1));
  return codes;
}

}  // namespace

size_t CodedWeight::code_at(size_t element) const {
  if (padded_dims.empty()) return element;
  size_t inner = static_cast<size_t>(product(std::span(padded_dims).subspan(2))), length = static_cast<size_t>(kept);
  size_t row = element / inner / length, column = element / inner % length;
  return (row * static_cast<size_t>(padded_dims[1]) + column) * inner + element % inner;
}

size_t CodedWeight::scale_at(size_t code) const {
  if (scale.size() == 1) return 0;
  size_t index = 0, stride = 1;
  for (size_t a = code_dims.size(); a-- > 0;) {
    const size_t at = code % static_cast<size_t>(code_dims[a]);
    code /= static_cast<size_t>(code_dims[a]);
    if (scale_dims[a] > 1) index += stride * (a == block_axis ? at / static_cast<size_t>(block) : at);
    stride *= static_cast<size_t>(scale_dims[a]);
  }
  return index;
}

std::vector<int32_t> CodedWeight::unpacked(const Tensor& stored) const {
  if (packing == Packing::kWhole) return whole_numbers(stored);
  auto bytes = stored.values<uint8_t>();
  if (packing == Packing::kRows) return unpacked_rows(bytes, bits);
  std::vector<int32_t> codes(static_cast<size_t>(product(code_dims)));
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = i < bytes.size() ? bytes[i] & 15 : bytes[i - bytes.size()] >> 4;
  return codes;
}

Tensor CodedWeight::packed(const Tensor& like, const std::vector<int32_t>& values) const {
  if (packing == Packing::kWhole) return codes_tensor(like.type(), like.dims(), values);
  std::vector<uint8_t> codes(values.begin(), values.end());
  if (packing == Packing::kRows) return Tensor::from(DataType::kUint8, like.dims(), pack_bits(codes, 1, bits));
  const size_t half = (codes.size() + 1) / 2;
  std::vector<uint8_t> bytes(codes.begin(), codes.begin() + static_cast<std::ptrdiff_t>(half));
  for (size_t i = half; i < codes.size(); ++i) bytes[i - half] |= static_cast<uint8_t>(codes[i] << 4);
  return Tensor::from(DataType::kUint8, like.dims(), std::move(bytes));
}

const Tensor* CodedWeights::initializer(const std::string& name) const {
  auto it = view_.initializers.find(name);
  return it == view_.initializers.end() ? nullptr : it->second;
}

bool CodedWeights::own_initializer(const std::string& name) const { return initializer(name) && read_once(name); }

const Node* CodedWeights::own_producer(const std::string& name, bool (*is_kind)(const Node&)) const {
  const Node* n = view_.edges.producer(name);
  return n && is_kind(*n) && read_once(name) ? n : nullptr;
}

const Node* CodedWeights::own_dequantizer(const std::string& name) const {
  const Node* n = own_producer(name, is_dequantize);
  return n && own_initializer(n->inputs[0]) && initializer(n->inputs[1]) ? n : nullptr;
}

std::optional<CodedWeight> CodedWeights::behind(const std::string& tensor) const {
  if (const Node* n = own_dequantizer(tensor)) return dequantized(*n);
  return folded(tensor);
}

std::optional<CodedWeight> CodedWeights::dequantized(const Node& node) const {
  const Tensor &codes = *initializer(node.inputs[0]), &scale = *initializer(node.inputs[1]);
  CodedWeight w;
  w.codes = node.inputs[0];
  w.dims = w.code_dims = codes.dims();
  w.zero_point = {0};
  if (!is_code_type(codes.type()) || !take_scale(scale, w)) return {};
  QuantLimits limits = code_limits(codes);
  w.lowest = limits.lowest, w.highest = limits.highest;
  if (node.inputs.size() > 2 && !node.inputs[2].empty()) {
    const Tensor* zero = initializer(node.inputs[2]);
    if (!zero) return {};
    w.zero_point = whole_numbers(*zero);
  }
  const int64_t rank = std::ssize(w.dims), given = node.int_attribute("axis", 1),
                axis = given < 0 ? given + rank : given;
  w.scale_dims.assign(w.dims.size(), 1);
  if (w.scale.size() > 1) {
    if (axis < 0 || axis >= rank) return {};
    w.block_axis = static_cast<size_t>(axis);
    w.block = std::max<int64_t>(1, node.int_attribute("block_size", 0));
    if (w.block > 1 || scale.dims().size() > 1) w.scale_dims = scale.dims();
    else w.scale_dims[w.block_axis] = std::ssize(w.scale);
  }
  if (!broadcasts(w) || !fits(w)) return {};
  return w;
}

std::optional<std::vector<int64_t>> CodedWeights::reshaped_to(const Node* node) const {
  const Tensor* shape = node ? initializer(node->inputs[1]) : nullptr;
  if (!shape || shape->type() != DataType::kInt64) return {};
  auto values = shape->values<int64_t>();
  return std::vector<int64_t>(values.begin(), values.end());
}

// From the back as add_folded() writes it.
std::optional<CodedWeight> CodedWeights::folded(const std::string& tensor) const {
  CodedWeight w;
  std::string at = tensor;
  if (const Node* whole = own_producer(at, is_reshape)) {
    auto dims = reshaped_to(whole);
    if (!dims) return {};
    w.dims = *dims;
    at = whole->inputs[0];
    if (const Node* cut = own_producer(at, is_slice)) {
      const Node* padded = own_producer(cut->inputs[0], is_reshape);
      const Tensor *end = initializer(cut->inputs[2]),
                   *axis = cut->inputs.size() > 3 ? initializer(cut->inputs[3]) : nullptr;
      auto padded_dims = reshaped_to(padded);
      if (!padded_dims || padded_dims->size() < 2 || !end || !axis || element(*axis, 0) != 1) return {};
      w.padded_dims = *padded_dims;
      w.kept = static_cast<int64_t>(element(*end, 0));
      at = padded->inputs[0];
    }
  }
  const Node* times = own_producer(at, is_mul);
  const Tensor* scale = times ? initializer(times->inputs[1]) : nullptr;
  if (!scale || !take_scale(*scale, w)) return {};
  w.scale_dims = scale->dims();
  w.zero_point = {0};
  at = times->inputs[0];
  if (const Node* less = own_producer(at, is_sub)) {
    const Node* zero = view_.edges.producer(less->inputs[1]);
    const Tensor* values = zero && is_cast(*zero) ? initializer(zero->inputs[0]) : nullptr;
    if (!values) return {};
    w.zero_point = whole_numbers(*values);
    at = less->inputs[0];
  }
  const Node* cast = own_producer(at, is_cast);
  if (!cast) return {};
  if (own_initializer(cast->inputs[0])) {
    const Tensor& codes = *initializer(cast->inputs[0]);
    if (!is_code_type(codes.type())) return {};
    QuantLimits limits = code_limits(codes);
    w.codes = cast->inputs[0], w.code_dims = codes.dims();
    w.lowest = limits.lowest, w.highest = limits.highest;
  } else if (!read_halves(cast->inputs[0], w)) {
    return {};
  }
  if (w.dims.empty()) w.dims = w.code_dims;
  const int64_t kept =
      w.padded_dims.empty() ? product(w.code_dims) : product(w.padded_dims) / w.padded_dims[1] * w.kept;
  if (kept != product(w.dims) || !broadcasts(w) || !fits(w)) return {};
  return w;
}

bool CodedWeights::read_halves(const std::string& codes, CodedWeight& w) const {
  const Node* shaped = own_producer(codes, is_reshape);
  auto dims = reshaped_to(shaped);
  if (!dims) return false;
  w.code_dims = *dims;
  const Node* even = own_producer(shaped->inputs[0], is_slice);
  const Node* both = own_producer(even ? even->inputs[0] : shaped->inputs[0], is_concat);
  if (!both || both->inputs.size() != 2) return false;
  const Node *low = own_producer(both->inputs[0], is_bit_shift), *high = own_producer(both->inputs[1], is_bit_shift);
  const Node* up = low ? own_producer(low->inputs[0], is_bit_shift) : nullptr;
  if (!up || !high || up->inputs[0] != high->inputs[0] || view_.edges.uses(high->inputs[0]) != 2) return false;
  const Tensor* bytes = initializer(high->inputs[0]);
  if (!bytes || bytes->type() != DataType::kUint8 || (product(w.code_dims) + 1) / 2 != bytes->element_count())
    return false;
  w.codes = high->inputs[0];
  w.packing = CodedWeight::Packing::kHalves, w.bits = 4;
  w.lowest = 0, w.highest = 15;
  return true;
}

std::optional<CodedWeight> CodedWeights::of_nbits(const Node& node) const {
  if (!is_nbits(node) || node.domain != "com.microsoft" || node.inputs.size() < 3 || node.inputs.size() > 4 ||
      !own_initializer(node.inputs[1]))
    return {};
  const Tensor *codes = initializer(node.inputs[1]), *scale = initializer(node.inputs[2]);
  const int64_t inputs = node.int_attribute("K", 0), outputs = node.int_attribute("N", 0),
                block = node.int_attribute("block_size", 0);
  CodedWeight w;
  w.bits = static_cast<int>(node.int_attribute("bits", 4));
  if (!scale || codes->type() != DataType::kUint8 || block < 1 || (w.bits != 2 && w.bits != 4 && w.bits != 8))
    return {};
  const int64_t blocks = (inputs + block - 1) / block;
  w.codes = node.inputs[1];
  w.packing = CodedWeight::Packing::kRows;
  w.dims = {outputs, inputs};
  w.code_dims = {outputs, blocks, block};
  w.scale_dims = {outputs, blocks, 1};
  w.highest = (1 << w.bits) - 1;
  if (blocks * block != inputs) w.padded_dims = {outputs, blocks * block}, w.kept = inputs;
  w.zero_point = {1 << (w.bits - 1)};
  if (!take_scale(*scale, w) || std::ssize(w.scale) != outputs * blocks ||
      codes->element_count() * 8 / w.bits != product(w.code_dims))
    return {};
  if (node.inputs.size() > 3 && !node.inputs[3].empty()) {
    const Tensor* zero = initializer(node.inputs[3]);
    if (!zero || zero->type() != DataType::kUint8 || zero->element_count() % outputs != 0) return {};
    // A row's zero points end in a whole byte.
    const std::vector<int32_t> all = unpacked_rows(zero->values<uint8_t>(), w.bits);
    const size_t row = all.size() / static_cast<size_t>(outputs);
    if (row < static_cast<size_t>(blocks)) return {};
    w.zero_point.clear();
    for (size_t o = 0; o < static_cast<size_t>(outputs); ++o)
      w.zero_point.insert(w.zero_point.end(), all.begin() + static_cast<std::ptrdiff_t>(o * row),
                          all.begin() + static_cast<std::ptrdiff_t>(o * row) + blocks);
  }
  return w;
}

}  // namespace seqto::internal
