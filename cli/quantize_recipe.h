// seqto quantize --plan with a plan that carries its recipe, as `tune` writes it.
#pragma once

#include "self_check.h"
#include "seqto/explain.h"
#include "seqto/recipe.h"
#include "word_flags.h"

namespace seqto::cli {

struct Made {
  Quantized quantized;
  ExplainOptions asked;
  Workbench bench;  // where data were opened
  Judged judged;
};
// Options given as flags go before the recipe's, and a warning says so; `word` tells which were given. Throws
// Error{kUsage} for flags that would have no effect.
Made make_by_recipe(Recipe recipe, const WordFlags& f, Command word, const Refusal& refusal, const Context& context);

}  // namespace seqto::cli
