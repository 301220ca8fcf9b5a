// The flags of `tune`, which name a study: also of one that was begun, by its tune.toml.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "group_flags.h"
#include "improve_flags.h"
#include "limit_flags.h"
#include "metric_flags.h"
#include "seqto/tune.h"

namespace seqto::cli {

struct TuneFlags {
  TuneAllOptions all;
  DataFlags data;
  DeviceFlags device;
  std::vector<std::string> devices{"cpu"};
  bool in_process = false;
  QuantizeFlags quantize;
  ImproveFlags improve;
  std::string model, exclude_from;
  std::vector<std::string> decoders;  // the first belongs to the encoder `model`; its files with a cache
  GroupFlags groups;
  LimitFlags limits;
  std::string tolerance = "1%";
};

void add_tune_flags(Command word, TuneFlags& flags);

// After the parsing: what they ask for. Throws Error{kUsage}.
TuneAllOptions tune_options(Command word, TuneFlags& flags, const Context& context);

}  // namespace seqto::cli
