#include "runner/onnxruntime_providers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/json.h"
#include "base/statistics.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

struct Pointers {
  explicit Pointers(const std::map<std::string, std::string>& options) {
    for (const auto& [key, value] : options) {
      keys.push_back(key.c_str());
      values.push_back(value.c_str());
    }
  }
  std::vector<const char*> keys, values;
};

void append_cuda(Ort::SessionOptions& session, const Pointers& p) {
  const OrtApi& api = Ort::GetApi();
  OrtCUDAProviderOptionsV2* raw = nullptr;
  Ort::ThrowOnError(api.CreateCUDAProviderOptions(&raw));
  std::unique_ptr<OrtCUDAProviderOptionsV2, decltype(api.ReleaseCUDAProviderOptions)> options(
      raw, api.ReleaseCUDAProviderOptions);
  Ort::ThrowOnError(api.UpdateCUDAProviderOptions(raw, p.keys.data(), p.values.data(), p.keys.size()));
  session.AppendExecutionProvider_CUDA_V2(*options);
}

void append_tensorrt(Ort::SessionOptions& session, const Pointers& p) {
  const OrtApi& api = Ort::GetApi();
  OrtTensorRTProviderOptionsV2* raw = nullptr;
  Ort::ThrowOnError(api.CreateTensorRTProviderOptions(&raw));
  std::unique_ptr<OrtTensorRTProviderOptionsV2, decltype(api.ReleaseTensorRTProviderOptions)> options(
      raw, api.ReleaseTensorRTProviderOptions);
  Ort::ThrowOnError(api.UpdateTensorRTProviderOptions(raw, p.keys.data(), p.values.data(), p.keys.size()));
  session.AppendExecutionProvider_TensorRT_V2(*options);
  append_cuda(session, Pointers({}));  // what TensorRT does not take stays on the GPU
}

}  // namespace

void append_provider(Ort::SessionOptions& session, const Provider& provider,
                     const std::map<std::string, std::string>& options) {
  auto available = Ort::GetAvailableProviders();
  if (std::find(available.begin(), available.end(), provider.name) == available.end())
    throw Error(Code::kUnavailable,
                fmt::format("[runner] device '{}' found, but this ONNX Runtime has {} only; {} is needed; name its "
                            "library with --runtime-library or SEQTO_ORT_LIBRARY",
                            provider.device, fmt::join(available, ", "), provider.package));
  try {
    if (provider.device == "cuda") append_cuda(session, Pointers(options));
    else if (provider.device == "tensorrt") append_tensorrt(session, Pointers(options));
    else if (provider.device == "openvino")
      session.AppendExecutionProvider_OpenVINO_V2({options.begin(), options.end()});
    else session.AppendExecutionProvider(std::string(provider.short_name), {options.begin(), options.end()});
  } catch (const Ort::Exception& error) {
    throw Error(Code::kUnavailable, fmt::format("[runner] {} does not start: {}; {} is needed, and provider options "
                                                "that it knows",
                                                provider.name, error.what(), provider.package));
  }
}

std::vector<NodePlacement> placements_from_profile(const std::string& json_text) {
  std::vector<NodePlacement> placements;
  std::unordered_map<std::string, std::vector<double>> times;  // of each node, run by run
  for (const auto& event : parse_json(json_text)) {
    if (event.value("cat", "") != "Node" || !event.contains("args")) continue;
    const auto& args = event["args"];
    constexpr std::string_view kSuffix = "_kernel_time";
    std::string name = event.value("name", "");
    if (!name.ends_with(kSuffix) || !args.contains("provider")) continue;
    name.resize(name.size() - kSuffix.size());
    auto& of_node = times[name];
    if (of_node.empty()) placements.push_back({name, args.value("op_name", ""), args.value("provider", "")});
    of_node.push_back(event.value("dur", 0.0) * 1000);
  }
  for (NodePlacement& p : placements) {
    const auto& runs = times[p.node];
    p.ns = std::llround(median({runs.begin() + (runs.size() > 1), runs.end()}));
  }
  return placements;
}

}  // namespace seqto::internal
