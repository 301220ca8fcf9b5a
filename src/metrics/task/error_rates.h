// Errors of a recognizer that writes tokens, beside the metrics wer and cer, which read the scores of each frame.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/tokenizer.h"
#include "seqto/metrics.h"

namespace seqto::internal {

// Dims of scores of each frame: [1, frames, tokens] or, as of torch's CTC models, [frames, 1, tokens].
bool are_frames(const std::vector<int64_t>& dims);

// Edits over all words ("wer"), or characters ("cer"), of what was said; letters in small. Both spans are as long.
Score error_rate(const std::string& name, std::span<const std::string> said, std::span<const std::string> heard);

// Without marks, as "<s>". `file`: a vocab.json, a tokens.txt or a tokenizer.json.
std::vector<std::string> written_texts(std::span<const Tokens> ids, const std::string& file);

}  // namespace seqto::internal
