// Flags of what makes quantized models more accurate; see docs/accuracy.md.
#pragma once

#include <string>

#include "flags.h"
#include "seqto/improve.h"
#include "seqto/rounding.h"

namespace seqto::cli {

struct ImproveFlags {
  bool improve = false;  // what docs/accuracy.md recommends
  bool equalize = false, smooth = false;
  std::string smooth_alpha = "0.5";
  std::string bias_correction = "none", rounding = "nearest";
};
void add_improve_flags(CLI::App* word, ImproveFlags& flags);

// The model as it is calibrated and quantized: rewritten where the flags ask for it.
Model improved(Model model, const ImproveFlags& flags, const QuantizeOptions& options, bool dynamic,
               const DataFlags& data, const DeviceFlags& device, const Env& env);

// The quantized model with the corrections that the flags ask for. Throws Error{kUsage} where they need data and none
// are given.
Model corrected(const Model& float_model, Model quantized, const ImproveFlags& flags, const DataFlags& data,
                const DeviceFlags& device, const Env& env);

}  // namespace seqto::cli
