// Room: data. Texts and token ids, by the Python package tokenizers in a child process (docs/design/decisions/0014).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace seqto::internal {

using Tokens = std::vector<int64_t>;

struct Tokenized {
  bool lines = false;         // the tokenizer is one of whole texts: each line is one
  Tokens begin;               // what the tokenizer puts in front of a text; not in `texts`, and none of lines
  std::vector<Tokens> texts;  // lines, or whole files
};

// `tokenizer`: tokenizer.json, or the folder that holds it. `data`: what errors speak of. Both throw
// Error{kInvalidInput} with the reason of the package, or that it is not there.
Tokenized tokenized(const std::filesystem::path& data, std::span<const std::filesystem::path> files,
                    const std::string& tokenizer);
// The text of each, special tokens included; bytes that are no whole letter are U+FFFD.
std::vector<std::string> texts_of(std::span<const Tokens> ids, const std::string& tokenizer);

}  // namespace seqto::internal
