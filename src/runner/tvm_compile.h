// Room: runner. Compiles models with TVM, which is a Python package: in a child process, with a time limit, cached.
#pragma once

#include <filesystem>
#include <string>

#include "runner/tvm_device.h"
#include "seqto/env.h"
#include "seqto/model.h"
#include "seqto/runner.h"

namespace seqto::internal {

struct TvmPython {
  std::string path;
  std::string version;  // of TVM: "0.27.0.post1"
};
// options.tvm_python alone if it is given, else $SEQTO_TVM_PYTHON alone, else the build's own or python3 on PATH.
// Throws Error{kUnavailable} when none has TVM and onnx.
TvmPython find_tvm_python(const RunnerOptions& options, const Env& env);

// The folder with model.so and model.json, the compiled model; in the user's cache ($XDG_CACHE_HOME/seqto/tvm, else
// ~/.cache/seqto/tvm), named by what it was made from. An open first dimension of an input becomes 1. Throws
// Error{kInvalidInput} with TVM's words when it does not take the model, crashes on it or is not done within
// options.compile_timeout_seconds; naming the layer for operators on codes (QLinearConv, ConvInteger ...), other
// domains than ai.onnx, an input whose shape is open beyond its first dimension.
std::filesystem::path tvm_compile(const Model& model, const TvmTarget& target, const TvmPython& python,
                                  const RunnerOptions& options, const Env& env);

}  // namespace seqto::internal
