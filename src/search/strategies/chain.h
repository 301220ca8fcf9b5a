// The default search, from the float side (docs/search.md).
#pragma once

#include <memory>

#include "seqto/search.h"

namespace seqto {

std::unique_ptr<Strategy> make_chain(const SearchSpace& space, const StrategyOptions& options);

}  // namespace seqto
