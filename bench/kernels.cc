// Quantization of weights: bytes of float input per second, per tensor and per channel.
#include <benchmark/benchmark.h>

#include <cmath>

#include "quantization/arithmetic.h"

namespace {

using namespace seqto;
using namespace seqto::internal;

Tensor weight(int64_t channels) {
  std::vector<float> values(static_cast<size_t>(channels * 1152));
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i) * 0.37f);
  return float_tensor({channels, 128, 3, 3}, std::move(values));
}

void quantize_weight(benchmark::State& state) {
  Tensor w = weight(1024);
  WeightRule rule;
  if (state.range(0)) rule.axis = 0;
  for (auto _ : state) {
    Tensor q = quantize(w, weight_params(w, rule));
    benchmark::DoNotOptimize(q.bytes().data());
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * static_cast<int64_t>(w.bytes().size()));
}
BENCHMARK(quantize_weight)->ArgName("per_channel")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

}  // namespace
