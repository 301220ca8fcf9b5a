#include "quantization/writers.h"
#include "seqto/error.h"

namespace seqto::internal {

Model write_int4_weights(const Model&, const LayerSet&, const QuantizeOptions&, WeightCache&, std::vector<std::string>&) {
  throw Error(Code::kUsage, "[quantize] this scheme is not written yet");
}

}  // namespace seqto::internal
