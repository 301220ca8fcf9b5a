// Flags of what makes quantized models more accurate; see docs/design/accuracy.md.
#pragma once

#include <optional>
#include <string>

#include "flags.h"
#include "seqto/improve.h"

namespace seqto::cli {

struct ImproveFlags {
  bool improve = false;  // what docs/design/accuracy.md recommends
  ImproveOptions given;  // by flags without a word
  std::string smooth_alpha = "0.5";
  std::string bias_correction = "none";
  std::optional<std::string> rounding;
  // For layers of this scheme. Throws Error{kUsage}.
  ImproveOptions parsed(Scheme scheme, const QuantizeOptions& quantize) const;
  // What else --improve sets, where no flag of its own did.
  void add_options(QuantizeOptions& options, const QuantizeFlags& given, bool any_16_bits) const;
  bool any() const;
  // The flag to name in messages, where there is any.
  const char* first() const;
};
void add_improve_flags(Command word, ImproveFlags& flags);

}  // namespace seqto::cli
