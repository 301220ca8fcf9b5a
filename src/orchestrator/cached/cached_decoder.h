// Room: orchestrator/cached. The other files of a pair's decoder, with a cache in: quantized as the pair is.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/branches.h"
#include "model/pair.h"
#include "seqto/calibrate.h"
#include "seqto/quantize.h"
#include "seqto/runner.h"

namespace seqto::internal {

// decoder_with_past_model.onnx, or decoder_model_merged.onnx, which holds the decoder without a cache as well.
struct CachedDecoder {
  std::filesystem::path file;
  Model whole;
  std::optional<Branches> branches;  // of a merged one; then_branch is the one with a cache
  bool cache_is_else = false;        // the other one is

  const Model& cached() const {
    return !branches ? whole : cache_is_else ? branches->else_branch : branches->then_branch;
  }
};

// A pair and one plan of it.
struct SelectedPair {
  const Model& given;     // the float one, in the form that is quantized
  const Model& base;      // rewritten
  const Model& selected;  // the plan's
  const Pair& pair;
  const QuantizeOptions& quantize;
  const Plan& plan;
  std::vector<Corrections> corrections;
  std::map<std::string, CalibrateOptions> calibrate;  // by LayerOptions::method; "": without one
};

struct PairData {
  const Dataset& data;
  const DatasetOptions& options;
  std::vector<int64_t> calibration, evaluation;  // samples; without any to evaluate on nothing is measured
  Runner& runner;
  const Env& env;
};

struct CarriedDecoder {
  Model model;
  std::vector<std::string> notes;  // what it answers, and what it lacks; in words
};

// Throws Error{kInvalidInput} where the file is no decoder with a cache, or is one of another model than the pair's:
// `given` is that in the form that is quantized.
CachedDecoder open_cached(const std::filesystem::path& file, const Model& given, const Pair& pair,
                          const QuantizeOptions& quantize);

// The file under the pair's plan: its scheme, codes and rewriting for every layer that has the weights of one of the
// pair's; ranges of its own, on what the pair gives it; of a merged one the branch without a cache is the pair's
// decoder. Measured against the float decoder without a cache.
CarriedDecoder carry(const CachedDecoder& decoder, const SelectedPair& selected, const PairData& data);

// What the decoder reads for a token behind a cache that the float pair `given` fills, of the first sample.
std::vector<Tensor> step_inputs(const CachedDecoder& decoder, const Model& given, const Pair& pair,
                                const PairData& data);

}  // namespace seqto::internal
