// Limits of figures that nothing measured.
#pragma once

#include <string>
#include <vector>

#include "seqto/validate.h"

namespace seqto::internal {

// Throws Error{kInvalidInput}; `names`: of the figures that there are.
[[noreturn]] void refuse_limit(const Limit& limit, const std::vector<std::string>& names);

}  // namespace seqto::internal
