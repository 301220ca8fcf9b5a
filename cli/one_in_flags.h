// Flags of analyze --one-in.
#pragma once

#include <string>
#include <vector>

#include "seqto/metrics.h"
#include "word_flags.h"

namespace seqto::cli {

struct OneInFlags {
  std::vector<std::string> schemes;
  MetricOptions metrics;
  double size = 0;
  std::string plan_out;
};
void add_one_in_flags(Command word, OneInFlags& f);
void one_in_command(const WordFlags& f, const OneInFlags& own, const Context& context);

}  // namespace seqto::cli
