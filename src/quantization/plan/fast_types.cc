// The types of static layers that this machine's processor is fast in.
#include "quantization/plan/target_pairs.h"

namespace seqto {

void take_fast_types(QuantizeOptions& options, const std::string& device) {
  if (device != "cpu") return;
#if defined(__x86_64__)
  options.activation_type = DataType::kUint8;
  options.weight_type = DataType::kInt8;
  options.per_channel = true;
  options.reduce_range = !__builtin_cpu_supports("avx512vnni") && !__builtin_cpu_supports("avxvnni");
  internal::take_target_pairs(options, load_target("onnxruntime-cpu-x86"));
#else
  internal::take_target_pairs(options, load_target("onnxruntime-cpu-arm64"));
#endif
}

}  // namespace seqto
