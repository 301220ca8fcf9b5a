#include <fmt/format.h>

#include <chrono>

#include "runner/onnxruntime_runner.h"
#include "runner/providers.h"
#include "runner/tvm_runner.h"
#include "runner/worker_runner.h"
#include "seqto/error.h"

namespace seqto {

TimedOutputs Session::run_timed(std::span<const Tensor> inputs) {
  using Clock = std::chrono::steady_clock;
  auto start = Clock::now();
  auto outputs = run(inputs);
  return {std::move(outputs), std::chrono::nanoseconds(Clock::now() - start).count()};
}

std::vector<TimedOutputs> Session::run_many(std::span<const std::vector<Tensor>> samples) {
  std::vector<TimedOutputs> results;
  for (const auto& inputs : samples) results.push_back(run_timed(inputs));
  return results;
}

std::vector<int64_t> Session::time(std::span<const Tensor> inputs, int repeats) {
  std::vector<int64_t> result;
  for (int i = 0; i < repeats; ++i) result.push_back(run_timed(inputs).ns);
  return result;
}

std::vector<NodePlacement> Runner::placement(const Model&, std::span<const Tensor>) { return {}; }

std::unique_ptr<Runner> make_runner(const std::string& device, const RunnerOptions& options, const Env& env) {
  if (internal::is_tvm_device(device))
    return internal::make_tvm_runner(internal::parse_tvm_device(device), device, options, env);
  if (device != "cpu" && !internal::find_provider(device))
    throw Error(
        Code::kUnavailable,
        fmt::format(
            "[runner] device '{}' found; cpu, one of ONNX Runtime's providers or tvm:TARGET expected; --device list "
            "tells which are there",
            device));
  if (options.isolated)
    return internal::make_worker_runner(internal::worker_command(device, options), device, options, env);
  return internal::make_onnxruntime_runner(device, options, env);
}

}  // namespace seqto
