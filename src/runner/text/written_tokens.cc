#include "runner/text/written_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <unordered_map>

#include "base/hash.h"
#include "seqto/error.h"
#include "seqto/positions.h"

namespace seqto::internal {
namespace {

bool has(const std::vector<int64_t>& list, int64_t token) { return std::ranges::count(list, token) > 0; }

int64_t likeliest(std::span<const float> scores, const Writing& writing, bool first) {
  int64_t best = 0;
  float most = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < std::ssize(scores); ++i) {
    if (has(writing.suppressed, i) || (first && has(writing.suppressed_first, i))) continue;
    if (scores[static_cast<size_t>(i)] > most) most = scores[static_cast<size_t>(best = i)];
  }
  return best;
}

class WrittenTokens : public Dataset {
 public:
  // `data` gives what tokens do not; `inputs` are all.
  WrittenTokens(std::unique_ptr<Dataset> data, std::vector<ValueInfo> inputs, std::unique_ptr<Writer> writer,
                std::string settings)
      : data_(std::move(data)),
        inputs_(std::move(inputs)),
        writer_(std::move(writer)),
        settings_(std::move(settings)) {}

  int64_t size() const override { return data_->size(); }
  bool has_labels() const override { return data_->has_labels(); }
  bool is_random() const override { return data_->is_random(); }
  SampleKind kind(int64_t index) const override { return data_->kind(index); }
  std::string fingerprint() const override { return sha256_hex(data_->fingerprint() + settings_); }

  Sample read(int64_t index) const override {
    Sample sample = data_->read(index);
    // Of the encoder's tokens, where it reads any.
    sample.counted.clear();
    sample.tokens.clear();
    Values values;
    size_t next = 0;
    for (const ValueInfo& input : inputs_)
      if (!writer_->fills(input.name)) values[input.name] = std::move(sample.inputs[next++]);
    writer_->fill(values, tokens_of(index, values));
    sample.inputs.clear();
    for (const ValueInfo& input : inputs_) sample.inputs.push_back(values.at(input.name));
    return sample;
  }

 private:
  std::vector<int64_t> tokens_of(int64_t index, const Values& values) const {
    const std::lock_guard lock(mutex_);
    std::vector<int64_t>& tokens = written_[index];
    if (tokens.empty()) tokens = writer_->write(values);
    return tokens;
  }

  std::unique_ptr<Dataset> data_;
  std::vector<ValueInfo> inputs_;
  std::unique_ptr<Writer> writer_;
  std::string settings_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<int64_t, std::vector<int64_t>> written_;
};

bool has_array(const std::filesystem::path& path, const std::string& name) {
  if (path.extension() != ".npz" || !std::filesystem::is_regular_file(path)) return false;
  return std::ranges::any_of(load_arrays(path), [&](const Initializer& array) { return array.name == name; });
}

int64_t most_tokens(const Pair& pair, const TextOptions& text) {
  const int64_t most = pair.writing ? pair.writing->most : 0;
  if (text.length > 0) return most > 0 ? std::min(text.length, most) : text.length;
  return most > 0 ? most : TextOptions::kLength;
}

}  // namespace

Writer::Writer(const Model& joined, const Pair& pair, const DatasetOptions& options, Runner& runner)
    : pair_(pair),
      most_(most_tokens(pair, options.text)),
      filled_(filled_inputs(joined, pair, options)),
      halves_(joined, pair, runner) {
  if (!pair.writing)
    throw Error(Code::kInvalidInput,
                "[data] no tokens for the decoder found, and nothing that tells how it begins; an array of them in an "
                ".npz expected, or generation_config.json with decoder_start_token_id and eos_token_id beside the "
                "decoder");
}

bool Writer::fills(const std::string& input) const { return std::ranges::count(filled_, input, &ValueInfo::name) > 0; }

void Writer::fill(Values& given, const std::vector<int64_t>& tokens) const {
  fill_tokens(given, filled_, pair_, tokens);
}

std::vector<int64_t> Writer::write(Values given) {
  halves_.encode(given);
  std::vector<int64_t> tokens{pair_.writing->start};
  while (std::ssize(tokens) < most_) {
    fill(given, tokens);
    const int64_t next = next_token(given, tokens);
    if (has(pair_.writing->ends, next)) break;
    tokens.push_back(next);
  }
  return tokens;
}

int64_t Writer::next_token(const Values& given, const std::vector<int64_t>& tokens) {
  int64_t begins = 1;  // behind all that is forced, as in transformers
  for (const auto& [position, token] : pair_.writing->forced) {
    if (position == std::ssize(tokens)) return token;
    begins = std::max(begins, position + 1);
  }
  return likeliest(halves_.next_scores(halves_.decode(given), tokens.size()), *pair_.writing,
                   std::ssize(tokens) == begins);
}

std::unique_ptr<Dataset> open_pair_data(const std::filesystem::path& path, const Model& joined, const Pair& pair,
                                        const DatasetOptions& options, Runner& runner) {
  const std::vector<ValueInfo> inputs = joined.graph.free_inputs();
  const std::vector<ValueInfo> filled = filled_inputs(joined, pair, options);
  const auto tokens = std::ranges::find_if(filled, [&](const ValueInfo& input) { return is_tokens(pair, input); });
  if (tokens == filled.end() || has_array(path, tokens->name)) return open_dataset(path, inputs, options);
  auto writer = std::make_unique<Writer>(joined, pair, options, runner);
  std::vector<ValueInfo> others = inputs;
  std::erase_if(others, [&](const ValueInfo& input) { return writer->fills(input.name); });
  std::string settings =
      fmt::format("\nwritten from {}, at most {}", pair.writing->start, most_tokens(pair, options.text));
  auto written = std::make_unique<WrittenTokens>(open_dataset(path, others, options), inputs, std::move(writer),
                                                 std::move(settings));
  return with_positions(std::move(written), inputs);
}

}  // namespace seqto::internal
