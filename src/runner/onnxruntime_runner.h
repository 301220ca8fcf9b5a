// Room: runner. ONNX Runtime, loaded at run time from a shared library.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "seqto/runner.h"

namespace seqto::internal {

// `device` as make_runner() takes it.
std::unique_ptr<Runner> make_onnxruntime_runner(const std::string& device, const RunnerOptions& options,
                                                const Env& env);

// The file of the library that would be loaded; empty where only the loader knows it.
std::string onnxruntime_file(const RunnerOptions& options);

// Where libonnxruntime may lie, best first: the named one alone if there is one, else the build's own, Python's
// site-packages, the system's.
std::vector<std::string> onnxruntime_candidates(const std::string& named, const std::string& built_in);

}  // namespace seqto::internal
