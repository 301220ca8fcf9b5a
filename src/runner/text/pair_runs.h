// Room: runner/text. An encoder and its decoder run one after the other, and what a decoder with a cache reads of them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/pair.h"
#include "seqto/dataset.h"
#include "seqto/runner.h"

namespace seqto::internal {

using Values = std::unordered_map<std::string, Tensor>;

// The inputs of the joined model that the decoder's tokens fill: they, a mask, positions, an empty past. Not those that
// are constants in `options`.
std::vector<ValueInfo> filled_inputs(const Model& joined, const Pair& pair, const DatasetOptions& options);
void fill_tokens(Values& given, std::span<const ValueInfo> filled, const Pair& pair, std::span<const int64_t> tokens);
bool is_tokens(const Pair& pair, const ValueInfo& input);  // of the decoder

// Each in a session of its own. One thread at a time. Throws Error{kInvalidInput} where the pair says nonsense of
// itself.
class Halves {
 public:
  Halves(const Model& joined, const Pair& pair, Runner& runner, const SessionOptions& how = {});
  // Adds what the decoder reads of the encoder. `given`: by the names of the joined model.
  void encode(Values& given);
  // What the decoder answers, by its own names.
  Values decode(const Values& given);
  // Its scores of the next token behind the last of `count`. Throws Error{kInvalidInput} where no output has any.
  std::vector<float> next_scores(const Values& answers, size_t count) const;

 private:
  Pair pair_;
  std::unique_ptr<Session> encoder_, decoder_;
};

// The scores of the last of `count` tokens. Throws as Halves::next_scores(), naming `file`.
std::vector<float> last_scores(std::span<const Tensor> answers, size_t count, const std::string& file);

// A token to be read behind others.
struct Step {
  Values given;                 // by the names of the joined model, what the encoder gave included
  std::vector<int64_t> tokens;  // it is the last
};

// The steps of samples of a pair's data: of each kSteps, spread over its tokens. As samples they have the inputs of a
// decoder with a cache, which the halves' decoder fills. All of it outlives the data set.
class DecoderSteps : public Dataset {
 public:
  static constexpr int64_t kSteps = 4;
  struct Context {
    const Dataset& data;
    std::span<const int64_t> samples;
    const Model& joined;
    const DatasetOptions& options;
    std::span<const ValueInfo> inputs;  // of the decoder with a cache
    Halves& halves;
  };
  DecoderSteps(const Context& context, const Pair& pair);

  int64_t size() const override { return std::ssize(c_.samples) * kSteps; }
  Sample read(int64_t index) const override { return {.inputs = inputs(step(index))}; }
  bool has_labels() const override { return false; }
  std::string fingerprint() const override { return c_.data.fingerprint() + "\nsteps"; }

  Step step(int64_t index) const;
  std::vector<Tensor> inputs(const Step& step) const;
  // The scores of the next token by the halves alone, without a cache.
  std::vector<float> scores(const Step& step) const;

 private:
  Context c_;
  Pair pair_;
  std::vector<ValueInfo> data_inputs_, filled_;
  mutable std::mutex mutex_;
  mutable int64_t encoded_ = -1;  // the sample that `given_` is of
  mutable Values given_;
};

// Throws Error{kInvalidInput} naming an input of a decoder with a cache that neither the pair's inputs nor its
// decoder's outputs give. `file`: that decoder's.
void require_fed(std::span<const ValueInfo> inputs, const Pair& pair, const std::string& file);

}  // namespace seqto::internal
