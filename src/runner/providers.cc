#include "runner/providers.h"

#include <algorithm>

namespace seqto::internal {
namespace {

constexpr Provider kProviders[] = {
    {"cuda", "CUDAExecutionProvider", "", "the Python package onnxruntime-gpu, an NVIDIA driver, CUDA and cuDNN"},
    {"tensorrt", "TensorrtExecutionProvider", "", "the Python package onnxruntime-gpu, an NVIDIA driver and TensorRT"},
    {"openvino", "OpenVINOExecutionProvider", "", "the Python package onnxruntime-openvino"},
    {"webgpu", "WebGpuExecutionProvider", "WebGPU", "the Python package onnxruntime-webgpu and a Vulkan driver"},
    {"xnnpack", "XnnpackExecutionProvider", "XNNPACK", "an ONNX Runtime built with --use_xnnpack"},
    {"coreml", "CoreMLExecutionProvider", "CoreML", "the Python package onnxruntime on macOS"},
    {"qnn", "QNNExecutionProvider", "QNN", "the Python package onnxruntime-qnn and a Qualcomm NPU"},
};

}  // namespace

std::span<const Provider> providers() { return kProviders; }

const Provider* find_provider(std::string_view device) {
  auto it =
      std::find_if(std::begin(kProviders), std::end(kProviders), [&](const Provider& p) { return p.device == device; });
  return it == std::end(kProviders) ? nullptr : &*it;
}

}  // namespace seqto::internal
