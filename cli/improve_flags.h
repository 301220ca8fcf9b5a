// Flags of what makes quantized models more accurate; see docs/design/accuracy.md.
#pragma once

#include <optional>
#include <string>

#include "flags.h"
#include "seqto/improve.h"

namespace seqto::cli {

struct ImproveFlags {
  // What docs/design/accuracy.md recommends; unset: where `unasked` says so and nothing below is named.
  std::optional<bool> improve;
  bool unasked = false, quick = false;
  ImproveOptions given;  // by flags without a word
  std::string smooth_alpha = "0.5";
  std::string bias_correction = "none";
  std::optional<std::string> rounding;
  // For layers of this scheme. Throws Error{kUsage}.
  ImproveOptions parsed(Scheme scheme, const QuantizeOptions& quantize) const;
  // What else --improve sets, where no flag of its own did.
  void add_options(QuantizeOptions& options, const QuantizeFlags& given, bool any_16_bits) const;
  bool any() const;    // that the user asked for
  bool names() const;  // ... one by one
  ImproveOptions named() const;
  bool improves() const;  // as recommended
  // The flag to name in messages, where there is any.
  const char* first() const;
};
void add_improve_flags(Command word, ImproveFlags& flags);

}  // namespace seqto::cli
