// Room: runner. Runs models by TVM: compiled here, run by seqto-tvm on this machine or on a device behind a link.
#pragma once

#include <memory>
#include <string>

#include "runner/tvm_device.h"
#include "seqto/runner.h"

namespace seqto::internal {

// load() compiles (tvm_compile.h). What TVM does not run, observed loads and optimized(), is the CPU's here, with ONNX
// Runtime. Behind a link a run is repeated when the link broke, on a new connection: it throws DeviceGone when the
// device stays away for options.reconnect_seconds, and Error{kInvalidInput} when the device breaks the link at the same
// run again and again, which is the model's fault then. Throws Error{kUnavailable} when TVM's Python or seqto-tvm is
// not found or does not start.
std::unique_ptr<Runner> make_tvm_runner(const TvmDevice& device, const std::string& name, const RunnerOptions& options,
                                        const Env& env);

}  // namespace seqto::internal
