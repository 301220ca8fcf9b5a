#include "api.h"

#include <dlfcn.h>

#include <cstdlib>
#include <utility>

#include "cuda_compiler.h"

namespace seqto::on_tvm {
namespace {

constexpr std::pair<const char*, DLDeviceType> kDevices[] = {
    {"llvm", kDLCPU},      {"c", kDLCPU},       {"cuda", kDLCUDA}, {"opencl", kDLOpenCL},
    {"vulkan", kDLVulkan}, {"metal", kDLMetal}, {"rocm", kDLROCM}};

}  // namespace

ffi::Function global_function(const std::string& name) {
  auto function = ffi::Function::GetGlobal(name);
  if (!function)
    throw Error(Code::kUnavailable,
                "[tvm] the runtime has no function '" + name + "'; TVM 0.27 is expected; is it another release?");
  return *function;
}

ffi::Function function_of(const ffi::Module& module, const std::string& name) {
  auto function = module->GetFunction(name);
  if (!function)
    throw Error(Code::kInvalidInput, "[tvm] the compiled model has no function '" + name +
                                         "'; one compiled by seqto for this release of TVM was expected");
  return *function;
}

void load_plugin(const std::string& path) {
  if (!::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL))
    throw Error(Code::kUnavailable, std::string("[tvm] plug-in cannot be loaded: ") + ::dlerror());
}

DLDeviceType device_of_kind(const std::string& kind) {
  for (auto [name, type] : kDevices)
    if (kind == name) return type;
  throw Error(Code::kUsage, "[tvm] target kind '" + kind + "' found; llvm, cuda or opencl expected");
}

void require_device(DLDeviceType type) {
  for (auto [name, of_name] : kDevices) {
    if (of_name != type || type == kDLCPU) continue;
    std::string plugin = std::string("libtvm_runtime_") + name + ".so", why;
    auto known = [name = name] { return ffi::Function::GetGlobal(std::string("device_api.") + name).has_value(); };
    if (!known() && !::dlopen(plugin.c_str(), RTLD_NOW | RTLD_GLOBAL)) why = ::dlerror();
    if (!known())
      throw Error(Code::kUnavailable, std::string("[tvm] this runtime has no device '") + name + "' (" + why +
                                          "); give --plugin the path of a " + plugin + " of the same release");
    if (type == kDLCUDA) register_cuda_compiler();
  }
}

void set_threads(int threads) { ::setenv("TVM_NUM_THREADS", std::to_string(threads).c_str(), 1); }

}  // namespace seqto::on_tvm
