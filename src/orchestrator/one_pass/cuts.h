// Room: orchestrator/one_pass. Where a graph can be cut, and the parts between cuts.
//
// Where all that the weights have computed passes through one tensor, a graph can be cut there: what is behind it needs
// that tensor and the graph's inputs. What is made of the inputs alone, or with small constants (masks, rotations of
// positions), is computed anew behind the cut.
#pragma once

#include <string>
#include <vector>

#include "seqto/model.h"

namespace seqto::internal {

// Such tensors, in graph order; graph inputs and outputs are none. What a model remembers for its next run (is_memory)
// is no output here: a part behind a cut does not give it.
std::vector<std::string> cut_tensors(const Model& model);

// What the answers need, from the tensor on. Its inputs are `tensor` and then those of `inputs`.
Model behind(const Model& model, const ValueInfo& tensor, const std::vector<std::string>& inputs);

// The graph's inputs that it reads behind a cut: what behind() needs beside the tensor.
std::vector<std::string> inputs_behind(const Model& model, const std::string& tensor);

// A part of a model between two cuts.
struct Block {
  Model model;
  std::vector<size_t> inputs;  // those of its inputs that are the whole model's, as places among its free inputs; the
                               // first input of all but the first block is the tensor before them
};
// The model in parts of at most `bytes` of constants each, in float32, as far as the cuts let them. The last gives the
// answers, each other one the tensor that the next reads.
std::vector<Block> blocks(const Model& model, int64_t bytes);

// The block and these nodes of the model, by place, with the constants that they read: other readers of its weights,
// without which a quantizer would decide otherwise about them than in the whole model.
Model beside_block(const Model& model, const Model& block, const std::vector<size_t>& nodes);
// What is made of that, without them.
Model only_block(const Model& model, const Model& block);

}  // namespace seqto::internal
