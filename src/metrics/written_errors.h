// Room: metrics. Errors in the texts that an encoder and its decoder write freely, against what was said.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "seqto/dataset.h"
#include "seqto/metrics.h"
#include "seqto/runner.h"

namespace seqto::internal {

struct WrittenErrors {
  std::vector<std::string> asked;  // "wer=FILE", "cer=FILE": a vocabulary or a tokenizer
  DatasetOptions options;          // how long they may be
  std::vector<ValueInfo> inputs;   // of the model, in the data's order
};

struct WrittenScores {
  size_t texts = 0;
  std::map<std::string, Score> rates;  // by name
};
// A run of the decoder for each token. Throws Error{kInvalidInput} where no sample has a transcript, or the
// model is no pair.
WrittenScores written_errors(const WrittenErrors& how, const Model& model, const SampleRun& on);
// The same as metrics of the measurement.
void measure_written(Measurement& measurement, const WrittenErrors& how, const Model& model, const SampleRun& on);

// "wer" of "wer=FILE".
inline std::string name_of_rate(const std::string& asked) { return asked.substr(0, asked.find('=')); }

}  // namespace seqto::internal
