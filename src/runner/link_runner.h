// Room: runner. Runs models by workers on a machine that ssh or adb reaches.
#pragma once

#include <memory>

#include "runner/link.h"
#include "seqto/runner.h"

namespace seqto::internal {

// options.workers connections, a worker each. A run is repeated when the link broke, on a new connection: it throws
// DeviceGone when the machine stays away for options.reconnect_seconds. A worker that crashes there or does not answer
// in time, or a run that breaks the link again and again, is the model's fault: Error{kInvalidInput}. Observed loads
// and optimized() are the CPU's here. Throws Error{kUnavailable} as far_worker().
std::unique_ptr<Runner> make_link_runner(const Link& link, const RunnerOptions& options, const Env& env);

}  // namespace seqto::internal
