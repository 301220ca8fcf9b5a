// Room: quantization/arithmetic. The loops of kernels.h over vectors of type V; V has the instructions, one value or
// many at a time.
//
// To be included once by each file that has a V. Everything is local to that file, for it is compiled with flags of its
// own.
#pragma once

#include "quantization/arithmetic/kernels.h"

namespace seqto::internal {
namespace {

// One value at a time: the definition that the vectors are compared with, and the last few values of each run.
// `low` and `high` are the range's ends less the zero point: clamping to integers before rounding gives the same code.
inline int32_t one_code(float x, float scale, int32_t zero_point, float low, float high) {
  x = x / scale;
  if (x != x) return 0;
  x = x < low ? low : x;
  x = x > high ? high : x;
  // Adding and taking away 1.5 * 2^23 rounds half to even in plain float arithmetic.
  constexpr float kMagic = 12582912.0f;
  return static_cast<int32_t>((x + kMagic) - kMagic) + zero_point;
}

// Rows of columns are short of a page or little more, and what reads ahead by itself stops at a page's end.
inline void read_ahead(const void* from) {
  constexpr uintptr_t kPage = 4096;
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(from) + kPage));
}

template <class V>
void min_max(const FileFloat* in, size_t n, float* low, float* high) {
  // Four accumulators hide the latency of one.
  typename V::Floats lo[4], hi[4];
  for (int k = 0; k < 4; ++k) lo[k] = V::all(*low), hi[k] = V::all(*high);
  size_t i = 0;
  for (; i + 4 * V::kLanes <= n; i += 4 * V::kLanes)
    for (int k = 0; k < 4; ++k) {
      typename V::Floats x = V::load(in + i + static_cast<size_t>(k) * V::kLanes);
      lo[k] = V::min(x, lo[k]);
      hi[k] = V::max(x, hi[k]);
    }
  float lows[V::kLanes], highs[V::kLanes];
  V::store(lows, V::min(V::min(lo[0], lo[1]), V::min(lo[2], lo[3])));
  V::store(highs, V::max(V::max(hi[0], hi[1]), V::max(hi[2], hi[3])));
  for (size_t k = 0; k < V::kLanes; ++k) {
    *low = lows[k] < *low ? lows[k] : *low;
    *high = highs[k] > *high ? highs[k] : *high;
  }
  for (; i < n; ++i) {
    *low = in[i] < *low ? in[i] : *low;
    *high = in[i] > *high ? in[i] : *high;
  }
}

template <class V>
void min_max_columns(const FileFloat* in, size_t n, float* low, float* high) {
  size_t i = 0;
  for (; i + V::kLanes <= n; i += V::kLanes) {
    read_ahead(in + i);
    typename V::Floats x = V::load(in + i);
    V::store(low + i, V::min(x, V::load(low + i)));
    V::store(high + i, V::max(x, V::load(high + i)));
  }
  for (; i < n; ++i) {
    low[i] = in[i] < low[i] ? in[i] : low[i];
    high[i] = in[i] > high[i] ? in[i] : high[i];
  }
}

template <class V, class T>
void quantize(const FileFloat* in, T* out, size_t n, float scale, int32_t zero_point, CodeRange range) {
  typename V::Floats divisor = V::all(scale);
  const float lowest = static_cast<float>(range.lowest - zero_point);
  const float highest = static_cast<float>(range.highest - zero_point);
  typename V::Floats low = V::all(lowest), high = V::all(highest);
  typename V::Ints zero = V::all(zero_point);
  size_t i = 0;
  for (; i + 4 * V::kLanes <= n; i += 4 * V::kLanes) {
    typename V::Ints codes[4];
    for (int k = 0; k < 4; ++k)
      codes[k] = V::code(V::load(in + i + static_cast<size_t>(k) * V::kLanes), divisor, zero, low, high);
    V::store(out + i, codes);
  }
  for (; i < n; ++i) out[i] = static_cast<T>(one_code(in[i], scale, zero_point, lowest, highest));
}

template <class V, class T>
void quantize_columns(const FileFloat* in, T* out, size_t n, const float* scale, const int32_t* zero_point,
                      CodeRange range) {
  typename V::Ints lowest = V::all(range.lowest), highest = V::all(range.highest);
  size_t i = 0;
  for (; i + 4 * V::kLanes <= n; i += 4 * V::kLanes) {
    typename V::Ints codes[4];
    for (int k = 0; k < 4; ++k) {
      size_t at = i + static_cast<size_t>(k) * V::kLanes;
      read_ahead(in + at);
      typename V::Ints zero = V::load(zero_point + at);
      codes[k] = V::code(V::load(in + at), V::load(scale + at), zero, V::difference(lowest, zero),
                         V::difference(highest, zero));
    }
    V::store(out + i, codes);
  }
  for (; i < n; ++i)
    out[i] = static_cast<T>(one_code(in[i], scale[i], zero_point[i], static_cast<float>(range.lowest - zero_point[i]),
                                     static_cast<float>(range.highest - zero_point[i])));
}

// Halves away from zero. Adding 0.5 and cutting off would round the largest float below 0.5 up.
inline int32_t rounded(float magnitude) {
  const int32_t whole = static_cast<int32_t>(magnitude);
  return whole + static_cast<int32_t>(magnitude - static_cast<float>(whole) >= 0.5f);
}

template <bool kRoundFirst>
uint8_t block_code(float value, float reciprocal, float zero_point, float highest) {
  float x = value * reciprocal;
  if (kRoundFirst) {
    const float most = highest + 1.0f, magnitude = __builtin_fabsf(x);
    x = __builtin_copysignf(static_cast<float>(rounded(magnitude < most ? magnitude : most)), x);
  }
  x += zero_point;
  x = x > 0.0f ? x : 0.0f;
  x = x < highest ? x : highest;
  return static_cast<uint8_t>(kRoundFirst ? static_cast<int32_t>(x) : rounded(x));
}

template <class V, bool kRoundFirst>
typename V::Ints block_codes(typename V::Floats x, typename V::Floats reciprocal, typename V::Floats zero_point,
                             float highest) {
  x = V::product(x, reciprocal);
  if (kRoundFirst) {
    const auto magnitude = V::min(V::magnitude(x), V::all(highest + 1.0f));
    x = V::with_sign(V::floats(V::rounded(magnitude)), x);
  }
  x = V::min(V::max(V::sum(x, zero_point), V::all(0.0f)), V::all(highest));
  return V::rounded(x);
}

template <class V, bool kRoundFirst, class Params>
void round_blocks(const FileFloat* in, uint8_t* out, size_t n, Params params, float highest) {
  size_t i = 0;
  for (; i + 4 * V::kLanes <= n; i += 4 * V::kLanes) {
    typename V::Ints codes[4];
    for (int k = 0; k < 4; ++k) {
      const size_t at = i + static_cast<size_t>(k) * V::kLanes;
      codes[k] = block_codes<V, kRoundFirst>(V::load(in + at), params.reciprocals(at), params.zero_points(at), highest);
    }
    V::store(out + i, codes);
  }
  for (; i < n; ++i) out[i] = block_code<kRoundFirst>(in[i], params.reciprocal(i), params.zero_point(i), highest);
}

template <class V>
struct OfBlock {
  float of_all, zero;
  typename V::Floats reciprocals(size_t) const { return V::all(of_all); }
  typename V::Floats zero_points(size_t) const { return V::all(zero); }
  float reciprocal(size_t) const { return of_all; }
  float zero_point(size_t) const { return zero; }
};
template <class V>
struct OfColumns {
  const float *of_each, *zeros;
  typename V::Floats reciprocals(size_t i) const { return V::load(of_each + i); }
  typename V::Floats zero_points(size_t i) const { return V::load(zeros + i); }
  float reciprocal(size_t i) const { return of_each[i]; }
  float zero_point(size_t i) const { return zeros[i]; }
};

template <class V, class Params>
void round_blocks(const FileFloat* in, uint8_t* out, size_t n, Params params, BlockRounding rounding) {
  if (rounding.round_first) round_blocks<V, true>(in, out, n, params, rounding.highest);
  else round_blocks<V, false>(in, out, n, params, rounding.highest);
}
template <class V>
void quantize_block(const FileFloat* in, uint8_t* out, size_t n, float reciprocal, float zero_point,
                    BlockRounding rounding) {
  round_blocks<V>(in, out, n, OfBlock<V>{reciprocal, zero_point}, rounding);
}
template <class V>
void quantize_block_columns(const FileFloat* in, uint8_t* out, size_t n, const float* reciprocal,
                            const float* zero_point, BlockRounding rounding) {
  round_blocks<V>(in, out, n, OfColumns<V>{reciprocal, zero_point}, rounding);
}

template <class V>
Kernels make_kernels(const char* name) {
  return {name,
          min_max<V>,
          min_max_columns<V>,
          quantize<V, uint8_t>,
          quantize<V, uint16_t>,
          quantize_columns<V, uint8_t>,
          quantize_columns<V, uint16_t>,
          quantize_block<V>,
          quantize_block_columns<V>};
}

}  // namespace
}  // namespace seqto::internal
