#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <fstream>

#include "runner/link_runner.h"
#include "runner/of_sample.h"
#include "runner/onnxruntime_runner.h"
#include "runner/runtimes.h"
#include "runner/tvm_runner.h"
#include "runner/worker/worker_runner.h"
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

std::vector<Tensor> run_sample(Session& session, const Sample& sample) {
  return internal::of_sample(sample.name, [&] { return session.run(sample.inputs); });
}

std::vector<NodePlacement> Runner::placement(const Model&, std::span<const Tensor>, int) { return {}; }

ProcessMemory Runner::memory() {
  ProcessMemory memory;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    long long kilobytes = 0;
    if (std::sscanf(line.c_str(), "VmRSS: %lld", &kilobytes) == 1) memory.resident_bytes = kilobytes * 1024;
    if (std::sscanf(line.c_str(), "VmHWM: %lld", &kilobytes) == 1) memory.peak_bytes = kilobytes * 1024;
  }
  return memory;
}

void require_device(const std::string& name) {
  if (!internal::is_device(name))
    throw Error(Code::kUnavailable, fmt::format("[runner] device '{}' found; cpu, one of ONNX Runtime's providers, "
                                                "tvm:TARGET, ssh:HOST or adb:SERIAL expected; --device list "
                                                "tells which are there",
                                                name));
}

std::unique_ptr<Runner> make_runner(const std::string& device, const RunnerOptions& options, const Env& env) {
  require_device(device);
  if (internal::is_tvm_device(device))
    return internal::make_tvm_runner(internal::parse_tvm_device(device), device, options, env);
  if (internal::is_link(device)) return internal::make_link_runner(internal::parse_link(device), options, env);
  if (options.isolated)
    return internal::make_worker_runner(internal::worker_command(device, options), device, options, env);
  return internal::make_onnxruntime_runner(device, options, env);
}

}  // namespace seqto
