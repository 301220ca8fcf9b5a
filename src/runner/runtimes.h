// Room: runner. The runtimes that a file may meet, by name. Those that are not ONNX Runtime's or TVM's are driven by
// small workers: runtime_worker.py, runtime_worker.mjs.
#pragma once

#include <memory>
#include <string>

#include "seqto/env.h"
#include "seqto/runner.h"

namespace seqto::internal {

// `name`: "openvino" (OpenVINO itself, not ONNX Runtime's provider), "opencv", "web", "cpu@VERSION" (that release of
// ONNX Runtime), "cpu:unoptimized" (nodes as they are written), the name of a folder of runtimes_folder() that holds a
// program `worker`, or a device as make_runner() takes it. All run in workers. Throws Error{kUnavailable} where it is
// not there, with the commands that bring it.
std::unique_ptr<Runner> make_runtime(const std::string& name, const RunnerOptions& options, const Env& env);

// Whether make_runner() takes the name; what runs there need not be there.
bool is_device(const std::string& name);
// Whether make_runtime() knows the name: what it brings need not be there, but for a folder of runtimes_folder().
bool is_runtime(const std::string& name);

// Where runtimes are installed, a folder each: $SEQTO_RUNTIMES, else the build's own where there is one, else
// $XDG_DATA_HOME/seqto/runtimes, else ~/.local/share/seqto/runtimes.
std::string runtimes_folder();

}  // namespace seqto::internal
