// Room: model. An encoder and its decoder as one model, which knows where they meet, and the way back.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "seqto/model.h"

namespace seqto::internal {

// How a decoder writes: what it begins with, and when it ends. Of Hugging Face's generation_config.json.
struct Writing {
  int64_t start = -1;                               // decoder_start_token_id
  std::vector<int64_t> ends;                        // eos_token_id
  std::vector<std::pair<int64_t, int64_t>> forced;  // forced_decoder_ids: a position and its token; forced_bos_token_id
  std::vector<int64_t> suppressed, suppressed_first;  // suppress_tokens and bad_words_ids of one; begin_suppress_tokens
  int64_t most = 0;                                   // max_length: of all tokens; 0: not said
};

// Names in the joined model, each with the name that it had in its own.
using Names = std::vector<std::pair<std::string, std::string>>;

struct Half {
  std::string file;  // its name without folder and extension
  Names inputs, outputs;
};

// Kept in the joined model's metadata: quantized models know it, too.
struct Pair {
  Half encoder, decoder;
  std::vector<ValueInfo> given;  // outputs of the encoder
  std::vector<ValueInfo> links;  // where they meet: inputs of the decoder that something of the encoder gives
  Names shared;                  // links that are an input of the encoder, each with that input
  std::optional<Writing> writing;
};

// A model in a file, whose folder may hold what tells how it writes.
struct NamedModel {
  const Model& model;
  std::string file;  // without folder and extension
};

// An input of the decoder is what an output of the encoder of that name gives; encoder_hidden_states is its
// last_hidden_state, or its only output. encoder_X is the encoder's input X. All other inputs of the decoder are the
// pair's, called decoder_X where the encoder has an X. Outputs are the decoder's. Throws Error{kInvalidInput} where
// nothing meets, an output of the encoder is left over, or bodies on both sides read tensors of one name.
Model join(const NamedModel& encoder, const NamedModel& decoder, std::optional<Writing> writing);

// Nothing where the model is no pair, or says nonsense about it.
std::optional<Pair> pair_of(const Model& model);

// Encoder and decoder of a joined model or of what came of it, with the names that they had. Throws
// Error{kInvalidInput} where a tensor in which they met is gone.
std::pair<Model, Model> take_apart(const Model& joined, const Pair& pair);

// The fields of the JSON file that are known; nothing where it names no start. Throws Error{kInvalidInput} naming the
// file where it is no JSON object.
std::optional<Writing> parse_writing(const std::string& json, const std::string& where);

}  // namespace seqto::internal
