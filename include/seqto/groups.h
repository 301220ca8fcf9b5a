// Room: quantization. Groups: layers that take one decision together, the units of a search.
//
// Every layer that takes any scheme is in exactly one group. The rule:
//
//  - A layer with constant weights (Conv, ConvTranspose, Gemm, MatMul, Gather, recurrent layers, Attention ...) founds
//  a
//    group. Layers that read the same weight are in the same group, also where one reads it through a Transpose.
//  - A layer without weights goes to the latest layer, in graph order, that it reads a float tensor from: an activation
//    function, a bias Add or a normalization to its layer, as the runtime fuses them; pooling, Reshape and others that
//    keep their input's parameters to where these come from. A boundary between two schemes is then where one tensor
//    passes from one layer with weights to the next, and costs one conversion there.
//  - AveragePool, GlobalAveragePool and ReduceMean found groups of their own: to round a mean anew loses what averaging
//    gained.
//  - A residual Add or a Concat goes to the latest of its branches. It does not join them: a network of residual blocks
//    would melt into one group. Each branch that has another scheme costs one conversion.
//  - Layers that only graph inputs and constants lead to go to the first layer that reads from them.
#pragma once

#include <string>
#include <vector>

#include "seqto/quantize.h"

namespace seqto {

struct GroupOptions {
  // Each list of patterns (patterns.h) makes one group of the layers that it names, whatever the graph says; layers
  // without weights that it does not name follow theirs. Lists that name the same layer, or layers with the same
  // weight, are one.
  std::vector<std::vector<std::string>> together;
};

// The groups in the order of their first layers, layers in graph order. The model has names (name_nodes) and shapes
// (infer_shapes). Throws Error{kUsage} for patterns that match no layer of a group.
std::vector<std::vector<LayerId>> groups(const Model& model, const GroupOptions& = {});

// A tied weight is the table of an embedding (Gather) and the matrix of a product, as in language models. What few bits
// lose there counts twice, so where `plan` gives its layers int4_weights they get float16, which loses nothing and is
// half of what the float weight takes. Returns one sentence for each such weight.
std::vector<std::string> widen_tied_weights(Plan& plan, const Model& model);

// {"groups": [[pattern, ...], ...]}, as `seqto inspect --json` prints them: GroupOptions::together.
// Throws Error{kInvalidInput}.
std::vector<std::vector<std::string>> groups_from_json(const std::string& text);

}  // namespace seqto
