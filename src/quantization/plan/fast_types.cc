// The types of static layers that this machine's processor is fast in.
#include "seqto/quantize.h"

namespace seqto {

void take_fast_types([[maybe_unused]] QuantizeOptions& options, [[maybe_unused]] const std::string& device) {
#if defined(__x86_64__)
  if (device != "cpu") return;
  options.activation_type = DataType::kUint8;
  options.weight_type = DataType::kInt8;
  options.per_channel = true;
  options.reduce_range = !__builtin_cpu_supports("avx512vnni") && !__builtin_cpu_supports("avxvnni");
#endif
}

}  // namespace seqto
