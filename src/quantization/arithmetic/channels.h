// Room: quantization/arithmetic. A tensor's values by channel: ranges, and codes. Where the kernels meet shapes.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "quantization/arithmetic/arithmetic.h"
#include "quantization/arithmetic/kernels.h"

namespace seqto::internal {

// Values that may lie anywhere in a file.
struct Floats {
  Floats(std::span<const float> values) : data(values.data()), count(values.size()) {}
  Floats(const std::vector<float>& values) : data(values.data()), count(values.size()) {}
  // Of a float32 tensor.
  explicit Floats(const Tensor& tensor)
      : data(reinterpret_cast<const FileFloat*>(tensor.bytes().data())), count(tensor.bytes().size() / sizeof(float)) {}

  Floats(const FileFloat* first, size_t length) : data(first), count(length) {}
  Floats part(size_t begin, size_t length) const { return {data + begin, length}; }

  const FileFloat* data;
  size_t count;
};

// A thread costs as much as the codes of some 100,000 values: steps of `values` each that are worth one.
inline size_t steps_worth_a_thread(size_t values) { return 200000 / std::max<size_t>(1, values) + 1; }

// A tensor seen as outer x channels x inner; without an axis all is inner.
struct Strides {
  size_t outer = 1, channels = 1, inner = 1;
};
Strides strides(const std::vector<int64_t>& dims, std::optional<int64_t> axis);

// A float tensor whose channels are divided or multiplied by these factors.
template <class T>
Tensor scaled(const Tensor& tensor, size_t axis, const std::vector<T>& factors, bool divide) {
  const size_t inner = strides(tensor.dims(), static_cast<int64_t>(axis)).inner;
  const auto in = tensor.values<float>();
  std::vector<float> out(in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    const T f = factors[i / inner % factors.size()];
    out[i] = static_cast<float>(divide ? in[i] / f : in[i] * f);
  }
  return float_tensor(tensor.dims(), std::move(out));
}

struct ChannelRanges {
  std::vector<float> low, high;  // infinity and -infinity where a channel has no number
};
ChannelRanges channel_ranges(Floats values, Strides shape, const Kernels& kernels = *supported_kernels().sets[0]);

// 4-bit codes are packed two a byte, the earlier in the low half.
Tensor quantize_channels(Floats values, const std::vector<int64_t>& dims, const QuantParams& params,
                         const Kernels& kernels = *supported_kernels().sets[0]);

}  // namespace seqto::internal
