// One layer in int8, as kernels compute it: codes multiplied, sums of pairs cut off where they are added in 16 bits.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>

#include "metrics/integer_layers.h"

namespace seqto::internal {
namespace {

// Bytes are unsigned, as kernels for x86 turn signed ones, and 16 bits are signed. Zero points are turned with them.
int turn(DataType type) { return type == DataType::kInt8 ? 128 : type == DataType::kUint16 ? -32768 : 0; }

template <class T>
std::vector<int16_t> turned(const Tensor& tensor) {
  std::vector<int16_t> codes;
  codes.reserve(static_cast<size_t>(tensor.element_count()));
  for (const T code : tensor.values<T>()) codes.push_back(static_cast<int16_t>(code + turn(tensor.type())));
  return codes;
}

std::vector<int16_t> turned_codes(const Tensor& tensor) {
  switch (tensor.type()) {
    case DataType::kInt8:
      return turned<int8_t>(tensor);
    case DataType::kInt16:
      return turned<int16_t>(tensor);
    case DataType::kUint16:
      return turned<uint16_t>(tensor);
    default:
      return turned<uint8_t>(tensor);
  }
}

int32_t dot(const int16_t* a, const int16_t* b, int64_t count) {
  int32_t sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<int32_t>(a[i]) * b[i];
  return sum;
}

// Sums that stop at the ends of an accumulator, one product after the other.
class Accumulator {
 public:
  Accumulator(const IntegerLayer& layer, int64_t limit)
      : layer_(layer), limit_(limit), zero_(layer.input_zero + turn(layer.input_type)) {
    for (const float scale : layer.weight_scales) scales_.push_back(layer.input_scale * scale);
  }

  int zero() const { return zero_; }

  float operator()(const int16_t* x, int32_t, int64_t m, LayerResult& result) const {
    const int16_t* w = &layer_.weights[m * layer_.depth];
    const int32_t w_zero = layer_.weight_zeros[m];
    int64_t sum = layer_.bias[m], cut = 0;
    for (int64_t k = 0; k < layer_.depth; ++k) {
      const int64_t next = sum + static_cast<int64_t>(x[k] - zero_) * (w[k] - w_zero);
      sum = std::clamp(next, -limit_ - 1, limit_);
      cut += sum != next;
    }
    result.saturated_pairs += cut;
    result.saturated_outputs += cut > 0;
    return static_cast<float>(sum) * scales_[m];
  }

 private:
  const IntegerLayer& layer_;
  int64_t limit_;
  int zero_;
  std::vector<float> scales_;
};

// The outputs of a layer one after the other.
class Writer {
 public:
  Writer(const IntegerLayer& layer, bool saturate) : layer_(layer), saturate_(saturate) {
    zero_ = layer.input_zero + turn(layer.input_type);
    for (int64_t m = 0; m < layer.channels; ++m) {
      int32_t sum = 0;
      for (int64_t k = 0; k < layer.depth; ++k) sum += layer.weights[m * layer.depth + k];
      weight_sums_.push_back(sum);
      float scale = layer.input_scale * layer.weight_scales[m];
      if (layer.output_type != DataType::kFloat) scale /= layer.output_scale;
      scales_.push_back(scale);
    }
  }

  int zero() const { return zero_; }

  // `x`: the codes that output channel m reads, in the order of its weights.
  float operator()(const int16_t* x, int32_t x_sum, int64_t m, LayerResult& result) const {
    const int16_t* w = &layer_.weights[m * layer_.depth];
    int32_t sum = dot(x, w, layer_.depth);
    if (saturate_) {
      int64_t cut = 0;
      for (const int32_t k : layer_.risky[m]) {
        const int32_t pair = x[k] * w[k] + (k + 1 < layer_.depth ? x[k + 1] * w[k + 1] : 0);
        const int32_t kept = std::clamp(pair, -32768, 32767);
        sum += kept - pair;
        cut += kept != pair;
      }
      result.saturated_pairs += cut;
      result.saturated_outputs += cut > 0;
    }
    const int32_t w_zero = layer_.weight_zeros[m];
    sum -= zero_ * weight_sums_[m];
    sum -= w_zero * x_sum - static_cast<int32_t>(layer_.depth) * zero_ * w_zero;
    return static_cast<float>(sum + layer_.bias[m]) * scales_[m];
  }

 private:
  const IntegerLayer& layer_;
  bool saturate_;
  int zero_ = 0;
  std::vector<int32_t> weight_sums_;
  std::vector<float> scales_;
};

// Of bytes; that of other codes nobody reads.
int32_t sum_of(const std::vector<int16_t>& codes) {
  return static_cast<int32_t>(std::accumulate(codes.begin(), codes.end(), int64_t{0}));
}

// The kernel's places over an image, and where each reads it.
class Windows {
 public:
  Windows(const ConvShape& shape, std::span<const int64_t> image)
      : shape_(shape), image_(image.begin(), image.end()), starts_(image.size()) {
    for (size_t axis = 0; axis < image.size(); ++axis) {
      const int64_t reach = shape.dilations[axis] * (shape.kernel[axis] - 1) + 1, stride = shape.strides[axis];
      int64_t before = shape.pads[axis], both = before + shape.pads[axis + image.size()];
      if (shape.padding != ConvShape::Padding::kGiven) {
        both = std::max<int64_t>(0, (image[axis] - 1) / stride * stride + reach - image[axis]);
        before = shape.padding == ConvShape::Padding::kSameUpper ? both / 2 : both - both / 2;
      }
      starts_[axis] = -before;
      sizes_.push_back((image[axis] + both - reach) / stride + 1);
    }
    place_.resize(image.size());
    kernel_place_.resize(image.size());
  }

  const std::vector<int64_t>& sizes() const { return sizes_; }  // of the output

  // Of output `i`, for each place of the kernel in turn: the element of the image, or -1 outside.
  template <class Take>
  void read(int64_t i, const Take& take) {
    for (size_t axis = sizes_.size(); axis-- > 0; i /= sizes_[axis]) place_[axis] = i % sizes_[axis];
    std::ranges::fill(kernel_place_, 0);
    do take(element());
    while (next_in_kernel());
  }

 private:
  int64_t element() const {
    int64_t found = 0;
    for (size_t axis = 0; axis < image_.size(); ++axis) {
      const int64_t at =
          starts_[axis] + place_[axis] * shape_.strides[axis] + kernel_place_[axis] * shape_.dilations[axis];
      if (at < 0 || at >= image_[axis]) return -1;
      found = found * image_[axis] + at;
    }
    return found;
  }

  bool next_in_kernel() {
    for (size_t axis = kernel_place_.size(); axis-- > 0;) {
      if (++kernel_place_[axis] < shape_.kernel[axis]) return true;
      kernel_place_[axis] = 0;
    }
    return false;
  }

  const ConvShape& shape_;
  std::vector<int64_t> image_, starts_, sizes_, place_, kernel_place_;
};

int64_t product(std::span<const int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies());
}

template <class Write>
std::vector<float> convolve(const IntegerLayer& layer, const Tensor& input, const Write& write,
                            std::vector<int64_t>& dims, LayerResult& result) {
  const std::vector<int16_t> codes = turned_codes(input);
  const auto image = std::span(input.dims()).subspan(2);
  const int64_t images = input.dims()[0], planes = input.dims()[1], area = product(image), groups = layer.shape.groups;
  Windows windows(layer.shape, image);
  const int64_t places = product(windows.sizes());
  const int64_t group_planes = planes / groups, group_channels = layer.channels / groups;
  dims = {images, layer.channels};
  dims.insert(dims.end(), windows.sizes().begin(), windows.sizes().end());
  std::vector<float> values(static_cast<size_t>(product(dims)));
  std::vector<int16_t> x(static_cast<size_t>(layer.depth));
  for (int64_t n = 0; n < images; ++n)
    for (int64_t g = 0; g < groups; ++g)
      for (int64_t i = 0; i < places; ++i) {
        const int64_t first = (n * planes + g * group_planes) * area;
        int16_t* to = x.data();
        windows.read(i, [&](int64_t at) {
          for (int64_t c = 0; c < group_planes; ++c)
            *to++ = at < 0 ? static_cast<int16_t>(write.zero()) : codes[first + c * area + at];
        });
        const int32_t x_sum = sum_of(x);
        for (int64_t m = g * group_channels; m < (g + 1) * group_channels; ++m)
          values[(n * layer.channels + m) * places + i] = write(x.data(), x_sum, m, result);
      }
  return values;
}

template <class Write>
std::vector<float> multiply(const IntegerLayer& layer, const Tensor& input, const Write& write,
                            std::vector<int64_t>& dims, LayerResult& result) {
  const std::vector<int16_t> codes = turned_codes(input);
  dims = input.dims();
  dims.back() = layer.channels;
  const int64_t rows = static_cast<int64_t>(codes.size()) / layer.depth;
  std::vector<float> values(static_cast<size_t>(rows * layer.channels));
  std::vector<int16_t> x(static_cast<size_t>(layer.depth));
  for (int64_t r = 0; r < rows; ++r) {
    std::copy_n(codes.begin() + r * layer.depth, layer.depth, x.begin());
    const int32_t x_sum = sum_of(x);
    for (int64_t m = 0; m < layer.channels; ++m) values[r * layer.channels + m] = write(x.data(), x_sum, m, result);
  }
  return values;
}

template <class Write>
std::vector<float> outputs_of(const IntegerLayer& layer, const Tensor& input, const Write& write,
                              std::vector<int64_t>& dims, LayerResult& result) {
  std::vector<float> values =
      layer.is_conv ? convolve(layer, input, write, dims, result) : multiply(layer, input, write, dims, result);
  result.outputs = std::ssize(values);
  return values;
}

template <class T>
Tensor rounded(const IntegerLayer& layer, const std::vector<float>& values, std::vector<int64_t> dims) {
  const auto lowest = static_cast<float>(std::numeric_limits<T>::lowest() - layer.output_zero);
  const auto highest = static_cast<float>(std::numeric_limits<T>::max() - layer.output_zero);
  std::vector<T> codes;
  codes.reserve(values.size());
  for (const float value : values)
    codes.push_back(
        static_cast<T>(std::nearbyint(std::clamp(value, lowest, highest)) + static_cast<float>(layer.output_zero)));
  return Tensor::from(layer.output_type, std::move(dims), std::move(codes));
}

}  // namespace

LayerResult accumulate(const IntegerLayer& layer, const Tensor& input, int64_t limit) {
  LayerResult result;
  std::vector<int64_t> dims;
  std::vector<float> values = outputs_of(layer, input, Accumulator(layer, limit), dims, result);
  result.pairs = result.outputs * layer.depth;
  result.output = float_tensor(std::move(dims), std::move(values));
  return result;
}

int64_t largest_sum(const IntegerLayer& layer) {
  const bool wide = element_bits(layer.input_type) == 16;
  const bool is_signed = layer.input_type == DataType::kInt8 || layer.input_type == DataType::kInt16;
  const int64_t codes = wide ? 65536 : 256;
  const int64_t lowest = (is_signed ? -codes / 2 : 0) - layer.input_zero, highest = lowest + codes - 1;
  int64_t largest = 0;
  for (int64_t m = 0; m < layer.channels; ++m) {
    int64_t high = std::max(layer.bias[m], 0), low = std::min(layer.bias[m], 0);
    for (int64_t k = 0; k < layer.depth; ++k) {
      const int64_t w = layer.weights[m * layer.depth + k] - layer.weight_zeros[m];
      high += std::max(w * highest, w * lowest);
      low += std::min(w * highest, w * lowest);
    }
    largest = std::max({largest, high, -low - 1});
  }
  return largest;
}

LayerResult compute(const IntegerLayer& layer, const Tensor& input, bool saturate) {
  LayerResult result;
  std::vector<int64_t> dims;
  std::vector<float> values = outputs_of(layer, input, Writer(layer, saturate), dims, result);
  result.pairs = result.outputs * ((layer.depth + 1) / 2);
  if (layer.output_type == DataType::kUint8) result.output = rounded<uint8_t>(layer, values, std::move(dims));
  else if (layer.output_type == DataType::kInt8) result.output = rounded<int8_t>(layer, values, std::move(dims));
  else result.output = float_tensor(std::move(dims), std::move(values));
  return result;
}

}  // namespace seqto::internal
