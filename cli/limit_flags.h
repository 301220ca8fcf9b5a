// Flags that limit figures: sizes with units, shares of the original, losses and accuracies by name.
#pragma once

#include <string>
#include <vector>

#include "commands.h"
#include "seqto/gate.h"

namespace seqto::cli {

struct LimitFlags {
  std::string max_size, max_latency;
  std::vector<std::string> max_loss, min_accuracy, max_accuracy_drop;
  std::vector<Limit> parsed() const;  // throws Error{kUsage}
};
double parse_share(const char* flag, const std::string& text);  // "1%" or "0.01"; throws Error{kUsage}
void add_limit_flags(Command word, LimitFlags& flags);
void add_quality_limit_flags(Command word, LimitFlags& flags);  // but for size and latency

}  // namespace seqto::cli
