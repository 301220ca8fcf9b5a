// Room: quantization. Calibration: the ranges of a model's tensors over a data set.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <unordered_map>
#include <vector>

#include "seqto/dataset.h"
#include "seqto/model.h"
#include "seqto/runner.h"

namespace seqto {

struct Range {
  float lowest = 0, highest = 0;
};
// Tensor name -> observed range. Independent of any plan: one calibration serves every candidate.
using Ranges = std::unordered_map<std::string, Range>;

struct CalibrateOptions {
  // Op types whose float inputs and outputs are observed; empty: the quantizer's default list.
  std::vector<std::string> op_types;
};
// One streaming pass over the samples in constant memory; min-max, per tensor.
// Throws Error{kInvalidInput} naming the tensor when a value is NaN or infinite.
Ranges calibrate(const Model& model, const Dataset& data, std::span<const int64_t> samples, Runner& runner,
                 const CalibrateOptions& = {}, const Env& = {});

// onnxruntime's JSON calibration cache, both directions.
Ranges load_ranges(const std::filesystem::path& path);
void save_ranges(const Ranges& ranges, const std::filesystem::path& path);

}  // namespace seqto
