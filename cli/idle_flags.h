// Flags of `quantize` that no layer reads: an error, as what was asked for would silently not be done.
#pragma once

#include "seqto/recipe.h"
#include "word_flags.h"

namespace seqto::cli {

// Throws Error{kUsage} for the first of them. Of a file of flags only where nobody typed a mode or plan beside it: it
// may be for several.
void refuse_idle(const Recipe& recipe, const WordFlags& f, const Command& word);

}  // namespace seqto::cli
