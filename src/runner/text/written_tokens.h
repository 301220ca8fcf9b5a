// Room: runner/text. Data of an encoder and its decoder: what the float models write for a sample are its tokens.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runner/text/pair_runs.h"
#include "seqto/dataset.h"
#include "seqto/runner.h"

namespace seqto::internal {

// An encoder and its decoder, of a joined model or of what came of it. One thread at a time. Throws
// Error{kInvalidInput} where nothing tells how the decoder begins.
class Writer {
 public:
  Writer(const Model& joined, const Pair& pair, const DatasetOptions& options, Runner& runner);
  // The likeliest token, one after the other: from the start to the one before the end, at most so many as
  // TextOptions::length says. `given` holds all but what tokens fill.
  std::vector<int64_t> write(Values given);
  // What the decoder reads of tokens: they, a mask, positions, an empty past.
  bool fills(const std::string& input) const;
  void fill(Values& given, const std::vector<int64_t>& tokens) const;

 private:
  int64_t next_token(const Values& given, const std::vector<int64_t>& tokens);

  Pair pair_;
  int64_t most_ = 0;
  std::vector<ValueInfo> filled_;
  Halves halves_;
};

// As open_dataset(). Where the data have no tokens for the decoder, the pair writes them, greedily, when a sample is
// first read: at most so many as TextOptions::length says. `runner` outlives the data set. Throws
// Error{kInvalidInput} where nothing tells how the decoder begins.
std::unique_ptr<Dataset> open_pair_data(const std::filesystem::path& path, const Model& joined, const Pair& pair,
                                        const DatasetOptions& options, Runner& runner);

}  // namespace seqto::internal
