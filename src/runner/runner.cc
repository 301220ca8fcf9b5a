#include <fmt/format.h>

#include <chrono>

#include "runner/onnxruntime_runner.h"
#include "seqto/error.h"

namespace seqto {

std::vector<int64_t> Session::time(std::span<const Tensor> inputs, int repeats) {
  using Clock = std::chrono::steady_clock;
  std::vector<int64_t> result;
  for (int i = 0; i < repeats; ++i) {
    auto start = Clock::now();
    run(inputs);
    result.push_back(std::chrono::nanoseconds(Clock::now() - start).count());
  }
  return result;
}

std::unique_ptr<Runner> make_runner(const std::string& device, const RunnerOptions& options, const Env& env) {
  if (device == "cpu") return internal::make_onnxruntime_runner(options, env);
  throw Error(Code::kUnavailable,
              fmt::format("[runner] device '{}' found; one of: cpu expected; choose another with --device", device));
}

}  // namespace seqto
