// The types of static layers that this machine's processor is fast in.
#include "quantization/plan/target_pairs.h"

namespace seqto {
namespace {

#if defined(__x86_64__)
constexpr const char* kTarget = "onnxruntime-cpu-x86";
#else
constexpr const char* kTarget = "onnxruntime-cpu-arm64";
#endif

}  // namespace

bool internal::pairs_saturate_on(const std::string& device) {
#if defined(__x86_64__)
  return device == "cpu" && !__builtin_cpu_supports("avx512vnni") && !__builtin_cpu_supports("avxvnni");
#else
  static_cast<void>(device);
  return false;
#endif
}

void take_fast_forms(QuantizeOptions& options, const std::string& device) {
  if (device == "cpu") take_target_forms(options, load_target(kTarget));
}

void take_fast_types(QuantizeOptions& options, const std::string& device) {
  if (device != "cpu") return;
#if defined(__x86_64__)
  options.activation_type = DataType::kUint8;
  options.weight_type = DataType::kInt8;
  options.per_channel = true;
  options.reduce_range = internal::pairs_saturate_on(device);
#endif
  internal::take_target_pairs(options, load_target(kTarget));
}

}  // namespace seqto
