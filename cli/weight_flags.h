// Flags of the schemes that change how weights are stored, and of float16.
#pragma once

#include <optional>
#include <string>

#include "parser.h"
#include "seqto/quantize.h"

namespace seqto::cli {

struct WeightFlags {
  int bits = 8;
  int64_t block_size = -1;  // -1: the scheme's own
  std::string int4_format = "matmulnbits";
  WeightOnlyOptions weight_only;
  Float16Options float16;
  bool float16_io = false;

  // Writes the flags into `options`; returns the scheme of `--mode weights`. `weight_type_given` says that
  // options.weight_type is the user's word, which then is the stored type. Throws Error{kUsage}.
  Scheme apply(QuantizeOptions& options, const std::string& weight_type, bool weight_type_given) const;
};
void add_weight_flags(Command word, WeightFlags& flags);

}  // namespace seqto::cli
