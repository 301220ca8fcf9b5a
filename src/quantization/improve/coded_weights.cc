#include "quantization/improve/coded_weights.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "quantization/arithmetic/arithmetic.h"
#include "quantization/arithmetic/nbits.h"
#include "quantization/plan/overrides.h"

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

std::vector<int32_t> CodedWeight::unpacked() const {
  if (packing == Packing::kWhole) return whole_numbers(codes);
  auto bytes = codes.values<uint8_t>();
  if (packing == Packing::kRows) return unpacked_rows(bytes, bits);
  std::vector<int32_t> values(static_cast<size_t>(product(code_dims)));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = i < bytes.size() ? bytes[i] & 15 : bytes[i - bytes.size()] >> 4;
  return values;
}

Tensor CodedWeight::packed(const std::vector<int32_t>& values) const {
  if (packing == Packing::kWhole) return codes_tensor(codes.type(), codes.dims(), values);
  std::vector<uint8_t> small(values.begin(), values.end());
  if (packing == Packing::kRows) return Tensor::from(DataType::kUint8, codes.dims(), pack_bits(small, 1, bits));
  const size_t half = (small.size() + 1) / 2;
  std::vector<uint8_t> bytes(small.begin(), small.begin() + static_cast<std::ptrdiff_t>(half));
  for (size_t i = half; i < small.size(); ++i) bytes[i - half] |= static_cast<uint8_t>(small[i] << 4);
  return Tensor::from(DataType::kUint8, codes.dims(), std::move(bytes));
}

CodedWeight coded_weight(const EncodedTensor& tensor) {
  const QuantParams& params = tensor.params;
  const QuantLimits limits = code_limits(params);
  CodedWeight w{.codes = *tensor.codes,
                .dims = tensor.codes->dims(),
                .scale = params.scale,
                .zero_point = params.zero_point,
                .lowest = limits.lowest,
                .highest = limits.highest};
  w.code_dims = w.dims;
  w.scale_dims.assign(w.dims.size(), 1);
  if (w.scale.size() == 1) return w;
  w.block_axis = *normalized_axis(params.axis.value_or(0), w.dims.size());
  w.block = std::max<int64_t>(1, params.block_size);
  if (params.block_size > 0) w.scale_dims = scale_dims(params, w.dims);
  else w.scale_dims[w.block_axis] = std::ssize(w.scale);
  return w;
}

namespace {

// A scale for each block of a shape of four axes, which the padding is cut from afterwards.
void cut_folded(const StoredWeight& stored, CodedWeight& w) {
  const auto& [whole, padded, b] = stored.cut;
  const auto plain = b == whole ? scale_dims(w.dims, b) : std::nullopt;
  w.code_dims = plain ? w.dims : std::vector{b.outer, b.before, b.channels, b.after};
  w.scale_dims = plain ? *plain : std::vector{b.outer, int64_t{1}, b.channels, int64_t{1}};
  w.scale_dims.insert(w.scale_dims.begin(), w.code_dims.size() - w.scale_dims.size(), 1);
  if (!stored.cut.is_padded()) return;
  const bool rows = padded.before != whole.before;
  w.padded_dims = rows ? std::vector{padded.outer, padded.before, padded.channels * padded.after}
                       : std::vector{padded.outer * padded.channels, padded.after};
  w.kept = rows ? whole.before : whole.after;
}

// Outputs x inputs, each row in blocks; its zero points end in a whole byte.
void cut_rows(const EncodedWeight& weight, CodedWeight& w) {
  const auto summed = static_cast<size_t>(weight.axis);
  const int64_t inputs = w.dims[summed], outputs = w.dims[1 - summed], block = weight.block_size,
                blocks = (inputs + block - 1) / block;
  w.dims = {outputs, inputs};
  w.code_dims = {outputs, blocks, block}, w.scale_dims = {outputs, blocks, 1};
  if (blocks * block != inputs) w.padded_dims = {outputs, blocks * block}, w.kept = inputs;
  const Tensor& zero = weight.stored.zero_point;
  w.zero_point = {1 << (w.bits - 1)};
  if (zero.bytes().empty()) return;
  const std::vector<int32_t> all = unpacked_rows(zero.values<uint8_t>(), w.bits);
  const auto row = std::ssize(all) / outputs;
  w.zero_point.clear();
  for (auto from = all.begin(); from != all.end(); from += row)
    w.zero_point.insert(w.zero_point.end(), from, from + blocks);
}

}  // namespace

CodedWeight coded_weight(const EncodedWeight& weight, const std::vector<int64_t>& dims) {
  const StoredWeight& stored = weight.stored;
  CodedWeight w{.codes = stored.codes, .dims = dims, .scale = to_floats(stored.scale), .zero_point = {0}};
  w.bits = stored.bits;
  if (!stored.zero_point.bytes().empty()) w.zero_point = whole_numbers(stored.zero_point);
  if (weight.form == StoredForm::kFolded) {
    cut_folded(stored, w);
    if (stored.bits == 4) w.packing = CodedWeight::Packing::kHalves;
    else w.codes = stored.codes.reshaped(w.code_dims);
  } else if (weight.form == StoredForm::kMatMulNBits) {
    w.packing = CodedWeight::Packing::kRows;
    cut_rows(weight, w);
  } else {
    w.code_dims = dims;
    w.scale_dims = stored.scale.dims();
    w.block_axis = static_cast<size_t>(weight.axis), w.block = std::max<int64_t>(1, weight.block_size);
    // A table of uint8 without zero points.
    if (stored.codes.type() == DataType::kUint8 && stored.zero_point.bytes().empty()) w.zero_point = {128};
  }
  const QuantLimits limits = w.packing == CodedWeight::Packing::kWhole ? quant_limits(stored.codes.type())
                                                                       : QuantLimits{0, (1 << stored.bits) - 1};
  w.lowest = limits.lowest, w.highest = limits.highest;
  return w;
}

void store(const CodedWeight& weight, StoredWeight& stored) {
  stored.codes = weight.codes.reshaped(stored.codes.dims());
  stored.scale = float_tensor(stored.scale.dims(), weight.scale);
  Tensor& zero = stored.zero_point;
  if (zero.bytes().empty()) return;
  if (weight.packing != CodedWeight::Packing::kRows) {
    zero = codes_tensor(zero.type(), zero.dims(), weight.zero_point);
    return;
  }
  const std::vector<uint8_t> codes(weight.zero_point.begin(), weight.zero_point.end());
  const auto middle = static_cast<uint8_t>(1 << (weight.bits - 1));
  zero = Tensor::from(DataType::kUint8, zero.dims(), pack_bits(codes, weight.dims[0], weight.bits, middle));
}

}  // namespace seqto::internal
