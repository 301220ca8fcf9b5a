#include <fmt/format.h>

#include "runner/onnxruntime_runner.h"
#include "seqto/error.h"

namespace seqto {

std::unique_ptr<Runner> make_runner(const std::string& device, const RunnerOptions& options, const Env& env) {
  if (device == "cpu") return internal::make_onnxruntime_runner(options, env);
  throw Error(Code::kUnavailable,
              fmt::format("[runner] device '{}' found; one of: cpu expected; choose another with --device", device));
}

}  // namespace seqto
