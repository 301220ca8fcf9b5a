// Room: search. What a search learned of single groups: enough to try out plans without measuring them.
#pragma once

#include <string>
#include <vector>

#include "seqto/search.h"

namespace seqto {

struct WhatIf {
  // All relative to float32; losses, bytes and times are taken to add up over the groups.
  struct Choice {
    DetailedScheme scheme;
    double loss = 0;
    double bytes_saved = 0;
    double ns_saved = 0;  // 0 where latency was no objective
    Plan plan;            // of the group's layers, with the fields of what improves them
  };
  struct Group {
    std::vector<LayerId> layers;
    std::vector<Choice> choices;  // float32 first
  };
  std::string loss;                       // "kl"
  double size_bytes = 0, latency_ns = 0;  // of the float model; latency 0: not predicted
  std::vector<Group> groups;
};
// From the trials on search samples; `options` as the strategy had them. Expected losses are those that the next step
// of strategy chain would go by.
WhatIf what_if(const SearchSpace& space, const StrategyOptions& options, const Study& study);
std::string what_if_to_json(const WhatIf& what_if);  // one line
WhatIf what_if_from_json(const std::string& text);   // throws Error{kInvalidInput}

}  // namespace seqto
