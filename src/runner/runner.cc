#include <fmt/format.h>

#include <chrono>

#include "runner/onnxruntime_runner.h"
#include "runner/providers.h"
#include "runner/worker_runner.h"
#include "seqto/error.h"

namespace seqto {

TimedOutputs Session::run_timed(std::span<const Tensor> inputs) {
  using Clock = std::chrono::steady_clock;
  auto start = Clock::now();
  auto outputs = run(inputs);
  return {std::move(outputs), std::chrono::nanoseconds(Clock::now() - start).count()};
}

std::vector<int64_t> Session::time(std::span<const Tensor> inputs, int repeats) {
  std::vector<int64_t> result;
  for (int i = 0; i < repeats; ++i) result.push_back(run_timed(inputs).ns);
  return result;
}

std::vector<NodePlacement> Runner::placement(const Model&, std::span<const Tensor>) { return {}; }

std::unique_ptr<Runner> make_runner(const std::string& device, const RunnerOptions& options, const Env& env) {
  if (device != "cpu" && !internal::find_provider(device))
    throw Error(
        Code::kUnavailable,
        fmt::format("[runner] device '{}' found; cpu or one of ONNX Runtime's providers expected; --device list "
                    "tells which are there",
                    device));
  if (options.isolated)
    return internal::make_worker_runner(internal::worker_command(device, options), device, options, env);
  return internal::make_onnxruntime_runner(device, options, env);
}

}  // namespace seqto
