// Room: model. A model in memory whose weights are elsewhere in memory.
#pragma once

#include <string_view>
#include <vector>

#include "seqto/model.h"

namespace seqto::internal {

// As parse_model(); `left_out` are initializers that the bytes lack, which become the last ones.
Model parse_with(std::string_view bytes, std::vector<Initializer> left_out);

}  // namespace seqto::internal
