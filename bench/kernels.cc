// Quantization of weights, range and codes together: bytes of float input per second of one core.
#include <benchmark/benchmark.h>

#include <cmath>

#include "quantization/arithmetic/channels.h"

namespace {

using namespace seqto;
using namespace seqto::internal;

std::vector<float> waves(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = std::sin(static_cast<float>(i % 65521) * 0.37f);
  return values;
}

constexpr int kPerTensor = -1;

void run(benchmark::State& state, const Kernels* kernels, DataType type, std::vector<int64_t> dims, int axis) {
  size_t count = 1;
  for (int64_t d : dims) count *= static_cast<size_t>(d);
  std::vector<float> values = waves(count);
  QuantParams params{type, {}, {}, {}};
  if (axis != kPerTensor) params.axis = axis;
  Strides shape = strides(dims, params.axis);
  for (auto _ : state) {
    ChannelRanges ranges = channel_ranges(values, shape, *kernels);
    params.scale.clear(), params.zero_point.clear();
    for (size_t c = 0; c < shape.channels; ++c) {
      auto p = scale_zero_point(ranges.low[c], ranges.high[c], {quant_limits(type), true});
      params.scale.push_back(p.scale), params.zero_point.push_back(p.zero_point);
    }
    benchmark::DoNotOptimize(quantize_channels(values, dims, params, *kernels).bytes().data());
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * static_cast<int64_t>(4 * count));
}

struct Shape {
  const char* name;
  std::vector<int64_t> dims;
  int axis;
};

int registered = [] {
  const Shape shapes[] = {{"conv/per_tensor", {1024, 128, 3, 3}, kPerTensor},
                          {"conv/axis0", {1024, 128, 3, 3}, 0},
                          {"conv_transpose/axis1", {1024, 128, 3, 3}, 1},
                          {"depthwise/axis0", {4096, 1, 3, 3}, 0},
                          {"matmul/axis1", {1024, 4096}, 1},
                          {"embedding/axis0", {25000, 1000}, 0}};
  KernelSets all = supported_kernels();
  for (size_t k = 0; k < all.count; ++k)
    for (DataType type : {DataType::kInt8, DataType::kUint8, DataType::kInt16, DataType::kInt4})
      for (const Shape& s : shapes) {
        if (type != DataType::kInt8 && s.name != std::string("conv/axis0") && s.name != std::string("matmul/axis1"))
          continue;
        std::string name = std::string(all.sets[k]->name) + "/" + std::string(to_string(type)) + "/" + s.name;
        benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
          run(state, all.sets[k], type, s.dims, s.axis);
        })->MinTime(0.2);
      }
  return 0;
}();

}  // namespace
