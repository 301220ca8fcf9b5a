// Resampling of 8-bit RGB pictures, equal to Pillow's to the last bit; see
// docs/design/decisions/0002-image-resampling.md.
#include "data/resize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "seqto/error.h"

namespace seqto::internal {
namespace {

// Weights are integers of this scale: 8 bits of pixel, 2 bits of headroom for overshoot, the rest of an int.
constexpr int kFractionBits = 32 - 8 - 2;

double sinc(double x) { return x == 0 ? 1 : std::sin(x * std::numbers::pi) / (x * std::numbers::pi); }

// The kernels reach from -reach() to reach() in pixels of the smaller scale.
double reach(Preprocess::Filter filter) {
  switch (filter) {
    case Preprocess::Filter::kBox:
      return 0.5;
    case Preprocess::Filter::kBilinear:
      return 1;
    case Preprocess::Filter::kBicubic:
      return 2;
    default:
      return 3;
  }
}

double kernel(Preprocess::Filter filter, double x) {
  const double d = std::abs(x);
  switch (filter) {
    case Preprocess::Filter::kBox:
      return x > -0.5 && x <= 0.5 ? 1 : 0;
    case Preprocess::Filter::kBilinear:
      return d < 1 ? 1 - d : 0;
    case Preprocess::Filter::kBicubic: {
      constexpr double a = -0.5;  // Catmull-Rom
      if (d < 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
      return d < 2 ? (((d - 5) * d + 8) * d - 4) * a : 0;
    }
    default:
      return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0;
  }
}

// For the output positions of one axis: which inputs are read, with what weight.
struct Axis {
  int begin = 0, end = 0;  // the inputs read at all; `first` counts from `begin`
  std::vector<int> first, count;
  std::vector<int32_t> weights;  // `taps` a position
  int taps = 0;                  // 0: the inputs are the outputs
};

// Positions window_begin.. of an axis that goes from `in` to `out` pixels.
Axis make_axis(int in, int out, int window_begin, int length, Preprocess::Filter filter) {
  if (in == out) return {.begin = window_begin, .end = window_begin + length};
  const double scale = static_cast<double>(in) / out;
  const double stretch = std::max(scale, 1.0);  // the kernel grows on reduction, so that every pixel counts
  const double support = reach(filter) * stretch;
  const double shrink = 1.0 / stretch;
  Axis axis;
  axis.taps = static_cast<int>(std::ceil(support)) * 2 + 1;
  axis.weights.assign(static_cast<size_t>(axis.taps) * length, 0);
  std::vector<double> exact(axis.taps);
  for (int i = 0; i < length; ++i) {
    const double center = (window_begin + i + 0.5) * scale;
    const int first = std::max(0, static_cast<int>(center - support + 0.5));
    const int count = std::min(in, static_cast<int>(center + support + 0.5)) - first;
    double sum = 0;
    for (int t = 0; t < count; ++t) sum += exact[t] = kernel(filter, (t + first - center + 0.5) * shrink);
    for (int t = 0; t < count; ++t) {
      const double weight = (sum != 0 ? exact[t] / sum : exact[t]) * (1 << kFractionBits);
      axis.weights[static_cast<size_t>(i) * axis.taps + t] = static_cast<int32_t>(weight + (weight < 0 ? -0.5 : 0.5));
    }
    axis.first.push_back(first);
    axis.count.push_back(count);
  }
  axis.begin = axis.first.front();
  axis.end = axis.first.back() + axis.count.back();
  for (int& first : axis.first) first -= axis.begin;
  return axis;
}

uint8_t to_pixel(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> kFractionBits, 0, 255)); }

// Every row brought to the axis' length.
Image resample_rows(Image image, const Axis& axis) {
  if (axis.taps == 0) return image;
  Image result{static_cast<int>(axis.first.size()), image.height, {}};
  result.rgb.resize(static_cast<size_t>(result.width) * result.height * 3);
  uint8_t* out = result.rgb.data();
  for (int y = 0; y < result.height; ++y) {
    const uint8_t* row = image.rgb.data() + static_cast<size_t>(y) * image.width * 3;
    for (int x = 0; x < result.width; ++x, out += 3) {
      const uint8_t* in = row + static_cast<ptrdiff_t>(axis.first[x]) * 3;
      const int32_t* weights = axis.weights.data() + static_cast<size_t>(x) * axis.taps;
      int32_t sum[3] = {1 << (kFractionBits - 1), 1 << (kFractionBits - 1), 1 << (kFractionBits - 1)};
      for (int t = 0; t < axis.count[x]; ++t, in += 3) {
        for (int c = 0; c < 3; ++c) sum[c] += in[c] * weights[t];
      }
      for (int c = 0; c < 3; ++c) out[c] = to_pixel(sum[c]);
    }
  }
  return result;
}

// Every column brought to the axis' length.
Image resample_columns(Image image, const Axis& axis) {
  if (axis.taps == 0) return image;
  Image result{image.width, static_cast<int>(axis.first.size()), {}};
  const size_t stride = static_cast<size_t>(image.width) * 3;
  result.rgb.resize(stride * result.height);
  std::vector<int32_t> sums(stride);
  for (int y = 0; y < result.height; ++y) {
    std::fill(sums.begin(), sums.end(), 1 << (kFractionBits - 1));
    for (int t = 0; t < axis.count[y]; ++t) {
      const uint8_t* in = image.rgb.data() + static_cast<size_t>(axis.first[y] + t) * stride;
      const int32_t weight = axis.weights[static_cast<size_t>(y) * axis.taps + t];
      for (size_t i = 0; i < stride; ++i) sums[i] += in[i] * weight;
    }
    std::transform(sums.begin(), sums.end(), result.rgb.begin() + static_cast<ptrdiff_t>(y * stride), to_pixel);
  }
  return result;
}

Image crop(Image image, const Window& window) {
  if (window.width == image.width && window.height == image.height) return image;
  Image result{window.width, window.height, {}};
  result.rgb.reserve(static_cast<size_t>(window.width) * window.height * 3);
  for (int y = 0; y < window.height; ++y) {
    const auto from = image.rgb.begin() + (static_cast<ptrdiff_t>(window.y + y) * image.width + window.x) * 3;
    result.rgb.insert(result.rgb.end(), from, from + static_cast<ptrdiff_t>(window.width) * 3);
  }
  return result;
}

// Positions read by the nearest filter. The sum is carried along as Pillow does: its rounding decides ties.
std::vector<int> nearest_positions(int in, int out) {
  const double step = static_cast<double>(in) / out;
  std::vector<int> positions(out);
  double at = step * 0.5;
  for (int& position : positions) {
    position = std::min(static_cast<int>(at), in - 1);
    at += step;
  }
  return positions;
}

Image resize_nearest(const Image& image, int width, int height, const Window& window) {
  const std::vector<int> columns = nearest_positions(image.width, width),
                         rows = nearest_positions(image.height, height);
  Image result{window.width, window.height, {}};
  result.rgb.reserve(static_cast<size_t>(window.width) * window.height * 3);
  for (int y = window.y; y < window.y + window.height; ++y) {
    for (int x = window.x; x < window.x + window.width; ++x) {
      const uint8_t* in = image.rgb.data() + (static_cast<size_t>(rows[y]) * image.width + columns[x]) * 3;
      result.rgb.insert(result.rgb.end(), in, in + 3);
    }
  }
  return result;
}

}  // namespace

Image resize(Image image, int width, int height, Preprocess::Filter filter, const Window& window) {
  if (width == image.width && height == image.height) return crop(std::move(image), window);
  if (filter == Preprocess::Filter::kNearest) return resize_nearest(image, width, height, window);

  const Axis across = make_axis(image.width, width, window.x, window.width, filter);
  const Axis down = make_axis(image.height, height, window.y, window.height, filter);
  // Each pass rounds to 8 bits, so their order shows. Pillow begins with the rows unless the height shrinks by more
  // than twice what the width does.
  const bool rows_first = height >= image.height || image.height - height <= 2 * (image.width - width);
  Image part = crop(std::move(image), {across.begin, down.begin, across.end - across.begin, down.end - down.begin});
  return rows_first ? resample_columns(resample_rows(std::move(part), across), down)
                    : resample_rows(resample_columns(std::move(part), down), across);
}

Image fit(Image image, const Preprocess& recipe, const std::string& name) {
  int width = image.width, height = image.height;
  if (recipe.short_side > 0) {
    const int shorter = std::min(width, height);
    const double scale = static_cast<double>(recipe.short_side) / shorter;
    // nearbyint() rounds half to even, as Python's round().
    const auto scaled = [&](int64_t side) {
      return recipe.truncates ? static_cast<double>(side * recipe.short_side / shorter)
                              : std::nearbyint(static_cast<double>(side) * scale);
    };
    const double long_side = scaled(std::max(width, height));
    if (long_side > 65535) {
      throw Error(
          Code::kInvalidInput,
          fmt::format("[data] {}: {}x{} found, {:.0f} pixels long at a short side of {}; at most 65535 expected; "
                      "remove the image",
                      name, width, height, long_side, recipe.short_side));
    }
    width = std::max(recipe.short_side, static_cast<int>(scaled(width)));
    height = std::max(recipe.short_side, static_cast<int>(scaled(height)));
  } else if (recipe.width > 0) {
    width = recipe.width, height = recipe.height;
  }
  Window window{0, 0, width, height};
  if (recipe.crop > 0) {
    if (width < recipe.crop || height < recipe.crop) {
      throw Error(Code::kInvalidInput,
                  fmt::format("[data] {}: {}x{} pixels found; at least the crop {}x{} expected; add \"resize\" to the "
                              "preprocess file",
                              name, width, height, recipe.crop, recipe.crop));
    }
    window = {(width - recipe.crop) / 2, (height - recipe.crop) / 2, recipe.crop, recipe.crop};
  }
  return resize(std::move(image), width, height, recipe.filter, window);
}

Window within_letterbox(int width, int height, const Preprocess& recipe) {
  const double scale = std::min(static_cast<double>(recipe.width) / width, static_cast<double>(recipe.height) / height);
  const auto scaled = [scale](int pixels, int most) {
    return std::clamp(static_cast<int>(std::nearbyint(pixels * scale)), 1, most);
  };
  const int w = scaled(width, recipe.width), h = scaled(height, recipe.height);
  return {(recipe.width - w) / 2, (recipe.height - h) / 2, w, h};
}

Image letterbox(Image image, const Preprocess& recipe) {
  const Window at = within_letterbox(image.width, image.height, recipe);
  const Image inner = resize(std::move(image), at.width, at.height, recipe.filter,
                             {.x = 0, .y = 0, .width = at.width, .height = at.height});
  Image box{recipe.width, recipe.height, {}};
  const size_t row = static_cast<size_t>(recipe.width) * 3, inner_row = static_cast<size_t>(at.width) * 3;
  box.rgb.assign(row * static_cast<size_t>(recipe.height), static_cast<uint8_t>(recipe.fill));
  for (int y = 0; y < at.height; ++y)
    std::copy_n(inner.rgb.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(y) * inner_row), inner_row,
                box.rgb.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(at.y + y) * row) + 3 * at.x);
  return box;
}

}  // namespace seqto::internal
