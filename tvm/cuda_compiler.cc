#include "cuda_compiler.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "api.h"

namespace seqto::on_tvm {
namespace {

// What TVM's kernels include, and NVRTC lacks: it needs no CUDA headers then, but for float16 and bfloat16.
constexpr const char* kIntegers = R"(#pragma once
namespace cuda { namespace std {
typedef signed char int8_t; typedef unsigned char uint8_t; typedef short int16_t; typedef unsigned short uint16_t;
typedef int int32_t; typedef unsigned int uint32_t; typedef long long int64_t; typedef unsigned long long uint64_t;
}}
)";
constexpr const char* kTraits = R"(#pragma once
#include <cuda/std/cstdint>
namespace cuda { namespace std {
template <bool V> struct bool_constant { static constexpr bool value = V; };
template <class A, class B> inline constexpr bool is_same_v = false;
template <class A> inline constexpr bool is_same_v<A, A> = true;
template <class A, class B> struct is_same : bool_constant<is_same_v<A, B>> {};
template <class T> struct is_floating_point : bool_constant<is_same_v<T, float> || is_same_v<T, double>> {};
template <class T> struct is_signed : bool_constant<(T(-1) < T(0))> {};
template <class T> struct is_unsigned : bool_constant<(T(-1) > T(0))> {};
template <class T, class... All> inline constexpr bool one_of = (is_same_v<T, All> || ...);
template <class T> struct is_integral : bool_constant<one_of<T, bool, char, int8_t, uint8_t, int16_t, uint16_t, int32_t,
                                                             uint32_t, long, unsigned long, int64_t, uint64_t>> {};
template <bool B, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { using type = T; };
template <bool B, class T, class F> struct conditional { using type = T; };
template <class T, class F> struct conditional<false, T, F> { using type = F; };
}}
)";
// What the host's <math.h> would define.
constexpr const char* kHead = R"(#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
)";

using Program = struct Opaque*;

// The functions of libnvrtc that are used here, by its documented interface; 0 is success.
struct Nvrtc {
  int (*nvrtcCreateProgram)(Program*, const char*, const char*, int, const char* const*, const char* const*);
  int (*nvrtcDestroyProgram)(Program*);
  int (*nvrtcCompileProgram)(Program, int, const char* const*);
  int (*nvrtcGetCUBINSize)(Program, size_t*);
  int (*nvrtcGetCUBIN)(Program, char*);
  int (*nvrtcGetProgramLogSize)(Program, size_t*);
  int (*nvrtcGetProgramLog)(Program, char*);
};

Nvrtc load_nvrtc() {
  void* library = nullptr;
  for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"})
    if ((library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL))) break;
  if (!library)
    throw Error(Code::kUnavailable,
                "[cuda] libnvrtc.so not found; install the CUDA toolkit or pip's nvidia-cuda-nvrtc, and put the folder "
                "of libnvrtc.so into LD_LIBRARY_PATH");
  Nvrtc nvrtc{};
  auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    if (!function) throw Error(Code::kUnavailable, std::string("[cuda] libnvrtc has no ") + name + "; 11.1 or later");
  };
  find(nvrtc.nvrtcCreateProgram, "nvrtcCreateProgram");
  find(nvrtc.nvrtcDestroyProgram, "nvrtcDestroyProgram");
  find(nvrtc.nvrtcCompileProgram, "nvrtcCompileProgram");
  find(nvrtc.nvrtcGetCUBINSize, "nvrtcGetCUBINSize");
  find(nvrtc.nvrtcGetCUBIN, "nvrtcGetCUBIN");
  find(nvrtc.nvrtcGetProgramLogSize, "nvrtcGetProgramLogSize");
  find(nvrtc.nvrtcGetProgramLog, "nvrtcGetProgramLog");
  return nvrtc;
}

// As sm_90: of this machine's GPU, whatever the model was made for.
std::string architecture() {
  constexpr int kComputeVersion = 4;  // tvm::runtime::DeviceAttrKind
  auto version = global_function("runtime.GetDeviceAttr")(static_cast<int>(kDLCUDA), 0, kComputeVersion);
  std::string text = version.cast<ffi::String>();
  std::erase(text, '.');
  return "sm_" + text;
}

std::string include_folder() {
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* folder = std::getenv(variable); folder && *folder) return std::string(folder) + "/include";
  return "/usr/local/cuda/include";
}

ffi::Bytes compile(const ffi::String& code) {
  static const Nvrtc nvrtc = load_nvrtc();
  std::string source = kHead + std::string(code);
  const char* headers[] = {kIntegers, kTraits};
  const char* names[] = {"cuda/std/cstdint", "cuda/std/type_traits"};
  Program program = nullptr;
  if (nvrtc.nvrtcCreateProgram(&program, source.c_str(), "model.cu", 2, headers, names) != 0)
    throw Error(Code::kUnavailable, "[cuda] NVRTC takes no program");
  std::string gpu = "--gpu-architecture=" + architecture(), include = "--include-path=" + include_folder();
  const char* options[] = {gpu.c_str(), include.c_str(), "--std=c++17", "-default-device", "--disable-warnings"};
  std::string result;
  size_t size = 0;
  bool good = nvrtc.nvrtcCompileProgram(program, 5, options) == 0;
  if (good ? nvrtc.nvrtcGetCUBINSize(program, &size) == 0 : nvrtc.nvrtcGetProgramLogSize(program, &size) == 0) {
    result.resize(size);
    good ? nvrtc.nvrtcGetCUBIN(program, result.data()) : nvrtc.nvrtcGetProgramLog(program, result.data());
  }
  nvrtc.nvrtcDestroyProgram(&program);
  if (!good || result.empty())
    throw Error(Code::kInvalidInput, "[cuda] NVRTC does not take the kernels of the model (" + gpu +
                                         "): " + result.substr(0, result.find('\n')));
  return ffi::Bytes(result);
}

}  // namespace

void register_cuda_compiler() {
  ffi::Function::SetGlobal("tvm_callback_cuda_compile", ffi::Function::FromTyped(compile), true);
}

}  // namespace seqto::on_tvm
