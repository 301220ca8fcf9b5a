// The published procedure: exclude one more entry of the error analysis' order a trial.
#pragma once

#include <memory>

#include "seqto/search.h"

namespace seqto {

std::unique_ptr<Strategy> make_incremental(const SearchSpace& space, const StrategyOptions& options);

}  // namespace seqto
