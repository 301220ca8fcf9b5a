// The layers of a transformer that rules of other tools name, found in the graph, whoever exported it.
#pragma once

#include <set>
#include <vector>

#include "seqto/model.h"
#include "seqto/plan.h"

namespace seqto::internal {

struct TransformerParts {
  std::set<LayerId> embeddings;  // gather rows of a constant table
  LayerId head;                  // the last product with a constant weight; "": there is none
  bool has_tied_head = false;    // whose weight is an embedding's table
  struct Block {
    std::set<LayerId> values;  // the value projection; one of queries, keys and values together
    LayerId down;              // the last narrowing product behind the attention; "": there is none
  };
  std::vector<Block> blocks;  // an attention each, in graph order
};
TransformerParts transformer_parts(const Model& model);

}  // namespace seqto::internal
