// Room: orchestrator. What the answers lose where one group of layers alone is quantized, for models of any size.
//
// The model is cut into blocks (a cut is where all that the weights have computed is one tensor: the residual stream).
// Block by block, the float model and every candidate whose group has been met go on from the values at the cut: so
// each block's weights are read once, whatever the number of candidates, and memory holds one block. Values at the cuts
// lie in temporary files. The figures are those of candidates that are made and run as a whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "seqto/metrics.h"
#include "seqto/plan.h"
#include "seqto/quantize.h"
#include "seqto/runner.h"

namespace seqto {

struct OneInOptions {
  std::vector<DetailedScheme> schemes{Scheme::kInt8Weights, Scheme::kInt4Weights};
  GroupOptions groups;
  QuantizeOptions quantize;
  MetricOptions metrics;  // its task and pooling: how answers are read, and so which loss counts
  // Constants of a block, at most, in float32 and as far as the cuts let them: memory holds two to three times the
  // largest. A small model is cut into 16 blocks, if it can be.
  int64_t block_bytes = int64_t{256} << 20;
};

struct OneIn {
  struct Entry {
    size_t group = 0, scheme = 0;
    Plan plan;                // of the group's layers that the scheme can hold
    Losses losses;            // means over the samples, as of any candidate
    Interval interval;        // of the mean of the loss that counts
    int64_t bytes_saved = 0;  // of the file, by its constants
    std::string failure;      // why it has no losses; empty: it has
  };
  std::string loss;  // that counts
  std::string task;
  std::vector<DetailedScheme> schemes;
  std::vector<std::vector<LayerId>> groups;  // those that any of the schemes can hold
  std::vector<Entry> entries;                // by group, then scheme; none where a scheme would change nothing
  int64_t model_bytes = 0;
  int64_t read_bytes = 0;  // of the model's constants, over all blocks
  size_t blocks = 0;
  double seconds = 0, forward_seconds = 0;   // all of it, and what one pass of the float model took of that
  double loss_of(const Entry& entry) const;  // the loss that counts
};

// `model` has names and shapes (tunable_form). A float16 model is computed in float32. Static schemes need `ranges`.
// The runner's sessions are in this process. Throws Error{kInvalidInput} where no group has any of the schemes.
OneIn one_in(const Model& model, const Ranges& ranges, const OneInOptions& options, const SampleRun& on);

std::string one_in_to_json(const OneIn& result);

// The plan whose summed losses are least among those whose file is at most `bytes` large, by the groups' losses alone.
// Nothing where no plan is so small.
std::optional<Plan> plan_within(const OneIn& result, int64_t bytes);

}  // namespace seqto
