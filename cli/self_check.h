// What quantize finds out about the model that it made, before anybody relies on it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "seqto/recipe.h"
#include "word_flags.h"

namespace seqto::cli {

// The samples that it is judged on.
struct Judged {
  std::vector<int64_t> samples;
  bool held_back = false;  // nothing was learned on them
};
// Whether values mean something and samples stand alone.
bool can_teach(const DataFlags& data);
// Takes up to 16 of them, and no more than a quarter, off what is learned on.
Judged hold_back(Workbench& bench, uint64_t seed);
// Some of those that something was learned on, where none were held back.
Judged some_of(const std::vector<int64_t>& samples);

struct SelfCheck {
  std::string figure;  // "top1_disagreement", or the loss that the outputs call for
  double value = 0;
  Judged on;
  bool ruined = false;
  std::string text;  // "differs from float on 98 % of 16 held-back samples", or why nothing is known
};
// Runs both models on the samples. Nothing where there are none. `file`: the float model's, see FirstAnswer.
std::optional<SelfCheck> self_check(const Quantized& made, const std::filesystem::path& file, const Workbench& bench,
                                    const Judged& on, const Env& env);

// What to try instead.
std::string advice(const WordFlags& f, const QuantizeOptions& made_with);

// What a user would wonder at: a file that grew, convolutions that are slow. A sentence each. `file`: the float
// model's.
std::vector<std::string> surprises(const Quantized& made, const std::filesystem::path& file, int64_t float_bytes,
                                   int64_t bytes);

}  // namespace seqto::cli
