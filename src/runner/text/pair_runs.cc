#include "runner/text/pair_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "data/convert.h"
#include "data/token_inputs.h"
#include "runner/text/decode_step.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

std::string_view without_prefix(std::string_view name) { return name.starts_with("decoder_") ? name.substr(8) : name; }

// Of an input of the decoder that tokens fill, by its own name.
std::optional<TokenRole> role_in(const Pair& pair, const ValueInfo& input) {
  const auto own = std::ranges::find(pair.decoder.inputs, input.name, &Names::value_type::first);
  if (own == pair.decoder.inputs.end()) return {};
  const auto role = role_of(without_prefix(own->second));
  return role && suits(input, *role) ? role : std::nullopt;
}

[[noreturn]] void nonsense(const std::string& name) {
  throw Error(Code::kInvalidInput,
              fmt::format("[data] a model of an encoder and its decoder that says nothing, or nonsense, of where '{}' "
                          "comes from found; one written by `seqto tune ENCODER DECODER` expected",
                          name));
}

const std::string& in_pair(const Names& names, const std::string& own) {
  const auto found = std::ranges::find(names, own, &Names::value_type::second);
  if (found == names.end()) nonsense(own);
  return found->first;
}

const Tensor& value_of(const Values& values, const std::string& name) {
  const auto found = values.find(name);
  if (found == values.end()) nonsense(name);
  return found->second;
}

std::vector<Tensor> in_order(const Names& names, const std::vector<std::string>& own, const Values& values) {
  std::vector<Tensor> inputs;
  for (const std::string& name : own) inputs.push_back(value_of(values, in_pair(names, name)));
  return inputs;
}

// What the decoder gives for this memory; null where nothing does.
const std::string* present_of(const Pair& pair, const std::string& past) {
  const auto found = std::ranges::find_if(pair.decoder.outputs, [&](const auto& output) {
    return gives_memory(output.second) && !memory_of(past).empty() && memory_of(output.second) == memory_of(past);
  });
  return found == pair.decoder.outputs.end() ? nullptr : &found->second;
}

bool has_input(const Pair& pair, const std::string& own) {
  return std::ranges::count(pair.decoder.inputs, own, &Names::value_type::second) > 0;
}

std::vector<int64_t> integers(const Tensor& tensor) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < tensor.element_count(); ++i) values.push_back(static_cast<int64_t>(element(tensor, i)));
  return values;
}

}  // namespace

std::vector<ValueInfo> filled_inputs(const Model& joined, const Pair& pair, const DatasetOptions& options) {
  std::vector<ValueInfo> filled = joined.graph.free_inputs();
  std::erase_if(filled, [&](const ValueInfo& v) { return options.constants.contains(v.name) || !role_in(pair, v); });
  return filled;
}

void fill_tokens(Values& given, std::span<const ValueInfo> filled, const Pair& pair, std::span<const int64_t> tokens) {
  for (const ValueInfo& input : filled)
    if (const auto role = role_in(pair, input)) given[input.name] = token_input(input, *role, tokens);
}

bool is_tokens(const Pair& pair, const ValueInfo& input) { return role_in(pair, input) == TokenRole::kTokens; }

Halves::Halves(const Model& joined, const Pair& pair, Runner& runner, const SessionOptions& how) : pair_(pair) {
  const auto [encoder, decoder] = take_apart(joined, pair);
  encoder_ = runner.load(encoder, how);
  decoder_ = runner.load(decoder, how);
}

void Halves::encode(Values& given) {
  const std::vector<Tensor> found = encoder_->run(in_order(pair_.encoder.inputs, encoder_->input_names(), given));
  const auto& names = encoder_->output_names();
  for (size_t i = 0; i < names.size(); ++i) given[in_pair(pair_.encoder.outputs, names[i])] = found[i];
  for (const auto& [link, input] : pair_.shared) given[link] = value_of(given, input);
}

Values Halves::decode(const Values& given) {
  const std::vector<Tensor> answers = decoder_->run(in_order(pair_.decoder.inputs, decoder_->input_names(), given));
  Values result;
  for (size_t i = 0; i < answers.size(); ++i) result[decoder_->output_names()[i]] = answers[i];
  return result;
}

std::vector<float> Halves::next_scores(const Values& answers, size_t count) const {
  std::vector<Tensor> in_order;
  for (const std::string& name : decoder_->output_names()) in_order.push_back(value_of(answers, name));
  return last_scores(in_order, count, pair_.decoder.file);
}

std::vector<float> last_scores(std::span<const Tensor> answers, size_t count, const std::string& file) {
  const auto scores = std::ranges::find_if(answers, [&](const Tensor& t) {
    return t.is_float() && t.dims().size() == 3 && t.dims()[1] >= static_cast<int64_t>(count) && t.dims()[2] > 0;
  });
  if (scores == answers.end())
    throw Error(Code::kInvalidInput, fmt::format("[data] a decoder {} without scores of tokens found; an output "
                                                 "[batch, tokens, vocabulary] expected",
                                                 file));
  const Tensor all = convert(*scores, DataType::kFloat, "scores");
  const auto width = static_cast<size_t>(all.dims()[2]);
  const auto row = all.values<float>().subspan((count - 1) * width, width);
  return {row.begin(), row.end()};
}

DecoderSteps::DecoderSteps(const Context& context, const Pair& pair)
    : c_(context),
      pair_(pair),
      data_inputs_(c_.joined.graph.free_inputs()),
      filled_(filled_inputs(c_.joined, pair, c_.options)) {}

Step DecoderSteps::step(int64_t index) const {
  const std::lock_guard lock(mutex_);
  const int64_t sample = c_.samples[static_cast<size_t>(index / kSteps)];
  if (encoded_ != sample) {
    given_.clear();
    const std::vector<Tensor> inputs = c_.data.read(sample).inputs;
    for (size_t i = 0; i < inputs.size(); ++i) given_[data_inputs_[i].name] = inputs[i];
    c_.halves.encode(given_);
    encoded_ = sample;
  }
  Step step{given_, {}};
  for (const ValueInfo& input : filled_)
    if (is_tokens(pair_, input)) step.tokens = integers(given_.at(input.name));
  // What is behind the end only fills the array.
  if (pair_.writing && step.tokens.size() > 1) {
    const auto end = std::find_first_of(step.tokens.begin() + 1, step.tokens.end(), pair_.writing->ends.begin(),
                                        pair_.writing->ends.end());
    step.tokens.erase(end, step.tokens.end());
  }
  const int64_t most = std::max<int64_t>(1, std::ssize(step.tokens) - 1);
  step.tokens.resize(static_cast<size_t>(2 + index % kSteps * most / kSteps), 0);
  return step;
}

std::vector<Tensor> DecoderSteps::inputs(const Step& step) const {
  Values given = step.given;
  fill_tokens(given, filled_, pair_, std::span(step.tokens).first(step.tokens.size() - 1));
  Values present;
  {
    const std::lock_guard lock(mutex_);
    present = c_.halves.decode(given);
  }
  const int64_t length = std::ssize(step.tokens);
  std::vector<Tensor> result;
  for (const ValueInfo& input : c_.inputs) {
    const auto role = role_of(without_prefix(input.name));
    const auto of = [&](std::vector<int64_t> values) {
      return token_row(std::move(values), input.shape ? input.shape->size() : 2, input.type, input.name);
    };
    if (input.type == DataType::kBool && !has_input(pair_, input.name))
      result.push_back(Tensor::from<uint8_t>(DataType::kBool, {1}, {1}));  // use_cache_branch
    else if (role == TokenRole::kMemory) result.push_back(value_of(present, *present_of(pair_, input.name)));
    else if (role == TokenRole::kTokens) result.push_back(of({step.tokens.back()}));
    else if (role == TokenRole::kPositions) result.push_back(of({length - 1}));
    else if (role == TokenRole::kZeros) result.push_back(of({0}));
    else if (role == TokenRole::kOnes) result.push_back(of(std::vector<int64_t>(static_cast<size_t>(length), 1)));
    else result.push_back(value_of(given, in_pair(pair_.decoder.inputs, input.name)));
  }
  return result;
}

std::vector<float> DecoderSteps::scores(const Step& step) const {
  Values given = step.given;
  fill_tokens(given, filled_, pair_, step.tokens);
  const std::lock_guard lock(mutex_);
  return c_.halves.next_scores(c_.halves.decode(given), step.tokens.size());
}

void require_fed(std::span<const ValueInfo> inputs, const Pair& pair, const std::string& file) {
  for (const ValueInfo& input : inputs) {
    const auto role = role_of(without_prefix(input.name));
    if (role == TokenRole::kMemory && !present_of(pair, input.name))
      throw Error(
          Code::kInvalidInput,
          fmt::format("[tune] an input {} of {} found that no output of {}.onnx gives; present.* of those names "
                      "expected: a decoder exported without a cache in, and with one out",
                      input.name, file, pair.decoder.file));
    if (!role && input.type != DataType::kBool && !has_input(pair, input.name))
      throw Error(Code::kInvalidInput,
                  fmt::format("[tune] an input {} of {} found that {}.onnx does not have; past_key_values.* and inputs "
                              "of that decoder expected",
                              input.name, file, pair.decoder.file));
  }
}

}  // namespace seqto::internal
