// seqto-tvm: TVM's runtime, reached by the names of its registered functions.
//
// TVM's headers appear in this folder alone. What a device needs (all but worker.cc and tvm_runner.*) depends on the
// C++ library, POSIX and the two TVM runtime libraries, so that it can be compiled for a phone or a board.
#pragma once

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>

#include <string>

#include "seqto/error.h"

namespace seqto::on_tvm {

namespace ffi = ::tvm::ffi;

// Throws Error{kUnavailable} where the runtime has no function of this name.
ffi::Function global_function(const std::string& name);
ffi::Function function_of(const ffi::Module& module, const std::string& name);

// Loads a runtime plug-in, as libtvm_runtime_cuda.so or libtvm_runtime_opencl.so: it registers its device by itself.
// Throws Error{kUnavailable} with the loader's words.
void load_plugin(const std::string& path);

// The device that code of a TVM target kind runs on: "llvm", "cuda", "opencl" ... Throws Error{kUsage}.
DLDeviceType device_of_kind(const std::string& kind);

// Loads the plug-in that lies beside the runtime where the device needs one that was not given; TVM's wheels have
// CUDA's. Throws Error{kUnavailable} when the runtime cannot use the device, with the loader's reason.
void require_device(DLDeviceType type);

// Threads that kernels on the CPU use; before the first kernel runs.
void set_threads(int threads);

}  // namespace seqto::on_tvm
