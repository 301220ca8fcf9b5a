#include "quantization/writers.h"
#include "seqto/error.h"

namespace seqto::internal {

Model write_float16(const Model&, const LayerSet&, const QuantizeOptions&, WeightCache&, std::vector<std::string>&) {
  throw Error(Code::kUsage, "[quantize] this scheme is not written yet");
}

}  // namespace seqto::internal
