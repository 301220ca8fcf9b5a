// What a worker process adds to a sample over the runtime in this process, both interleaved in one run. Models of one
// small operation, so that nothing hides it: 150,000 floats in (an image of 224 x 224), and a few or as many out. Also
// loading a candidate. Goal: less than 1 ms a sample.
#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <vector>

#include "base/statistics.h"
#include "seqto/runner.h"

namespace {

using namespace seqto;

constexpr int64_t kFloats = 150528;
constexpr int kSamples = 400, kDistinct = 50;

double ms(const std::function<void()>& f) {
  auto start = std::chrono::steady_clock::now();
  f();
  return 1e3 * std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Model image_model(bool big_output) {
  return parse_model_text(
      fmt::format("<ir_version: 8, opset_import: [\"\" : 17]> g (float[1,3,224,224] x) => (float[{}] y) {{ y = {} }}",
                  big_output ? "1,3,224,224" : "1,3,1,1", big_output ? "Relu(x)" : "GlobalAveragePool(x)"));
}

// Freshly made, as a decoder would, so that each is hashed and written the first time that it is seen.
Tensor image(int seed) {
  std::vector<float> values(kFloats);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((i * 31 + static_cast<size_t>(seed) * 977) % 4099);
  return float_tensor({1, 3, 224, 224}, std::move(values));
}

void compare(Runner& here, Runner& worker, bool big_output, bool fresh) {
  Model model = image_model(big_output);
  auto a = here.load(model), b = worker.load(model);
  std::vector<double> in_process, in_worker, added, device_here, device_worker;
  std::vector<Tensor> kept;
  for (int i = 0; i < kDistinct; ++i) kept.push_back(image(i));
  for (int i = 0; i < kSamples + 10; ++i) {
    // Fresh: bytes that the worker has never seen. Else: the samples of a study, which every candidate sees again.
    std::vector<Tensor> inputs{fresh ? image(1000 + i) : kept[static_cast<size_t>(i % kDistinct)]};
    TimedOutputs x, y;
    double t = ms([&] { x = a->run_timed(inputs); }), u = ms([&] { y = b->run_timed(inputs); });
    if (!x.outputs[0].equals(y.outputs[0])) fmt::print("the outputs differ\n"), std::exit(1);
    if (i < 10) continue;
    in_process.push_back(t);
    in_worker.push_back(u);
    added.push_back(u - t);
    device_here.push_back(static_cast<double>(x.ns) / 1e6);
    device_worker.push_back(static_cast<double>(y.ns) / 1e6);
  }
  fmt::print(
      "{:>7} floats out, {} samples: in process {:.3f} ms, in a worker {:.3f} ms, added {:.3f} ms (goal 1), ratio "
      "{:.2f}; "
      "reported latency {:.3f} and {:.3f} ms\n",
      big_output ? kFloats : 3, fresh ? "new" : "known", median(in_process), median(in_worker), median(added),
      median(in_worker) / median(in_process), median(device_here), median(device_worker));
}

// A model of 50 MB whose weights are shared by all candidates but for one.
void load_candidates(Runner& here, Runner& worker) {
  Model model = parse_model_text(
      "<ir_version: 8, opset_import: [\"\" : 17]> g (float[1,1024] x0) => (float[1,1024] x12) { x12 = Identity(x0) }");
  model.graph.nodes.clear();
  auto weight = [](size_t seed) {
    std::vector<float> values(1024 * 1024);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i + seed) % 997);
    return float_tensor({1024, 1024}, std::move(values));
  };
  for (size_t i = 0; i < 12; ++i) {
    model.graph.initializers.push_back({fmt::format("w{}", i), weight(i)});
    model.graph.nodes.push_back({fmt::format("n{}", i),
                                 "MatMul",
                                 "",
                                 {fmt::format("x{}", i), fmt::format("w{}", i)},
                                 {fmt::format("x{}", i + 1)},
                                 {},
                                 {}});
  }
  std::vector<double> in_process, in_worker;
  for (size_t i = 0; i < 12; ++i) {
    model.graph.initializers[i].tensor = weight(100 + i);
    in_process.push_back(ms([&] { here.load(model); }));
    in_worker.push_back(ms([&] { worker.load(model); }));
  }
  fmt::print("load a candidate of 50 MB, 4 MB of it new: in process {:.1f} ms, in a worker {:.1f} ms, ratio {:.2f}\n",
             median(in_process), median(in_worker), median(in_worker) / median(in_process));
  fmt::print("ratio load in a worker / in process {:.4f} lower\n", median(in_worker) / median(in_process));
}

}  // namespace

int main() {
  auto here = make_runner("cpu");
  double start = ms([&] { make_runner("cpu", {.isolated = true, .worker = SEQTO_BINARY}); });
  auto worker = make_runner("cpu", {.isolated = true, .worker = SEQTO_BINARY});
  for (bool big_output : {false, true})
    for (bool fresh : {false, true}) compare(*here, *worker, big_output, fresh);
  load_candidates(*here, *worker);
  fmt::print("a worker starts and ends in {:.0f} ms\n", start);
}
