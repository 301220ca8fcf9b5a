// Text files as samples of token ids: windows of a language model, or a line each.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/files.h"
#include "base/hash.h"
#include "data/datasets.h"
#include "data/select.h"
#include "data/shapes.h"
#include "data/token_inputs.h"
#include "data/tokenizer.h"
#include "seqto/error.h"

namespace seqto::internal {

namespace {

namespace fs = std::filesystem;

bool is_text(const fs::path& file) {
  const std::string extension = file.extension().string();
  return extension == ".txt" || extension == ".md";
}

std::vector<fs::path> text_files(const fs::path& path) {
  if (!fs::is_directory(path)) return is_text(path) ? std::vector{path} : std::vector<fs::path>();
  std::vector<fs::path> files;
  for_each_file(path, [&](const fs::path& file) {
    if (is_text(file)) files.push_back(file);
    return true;
  });
  std::ranges::sort(files);
  return files;
}

[[noreturn]] void fail(const fs::path& path, const std::string& found, const std::string& expected) {
  throw Error(Code::kInvalidInput, fmt::format("[data] {}: {} found; {}", path.string(), found, expected));
}

struct Filled {
  ValueInfo input;
  TokenRole role;
};

// The tokens of a sample, and the file that they are a window of; -1: a line.
struct Text {
  Tokens tokens;
  int64_t file = -1;
  int64_t row = 0;  // among all of the files
};

class TextDataset : public Dataset {
 public:
  TextDataset(std::vector<Text> samples, std::vector<Filled> inputs, std::string fingerprint)
      : samples_(std::move(samples)), inputs_(std::move(inputs)), fingerprint_(std::move(fingerprint)) {}

  int64_t size() const override { return std::ssize(samples_); }
  bool has_labels() const override { return false; }
  std::string fingerprint() const override { return fingerprint_; }
  int64_t row(int64_t index) const override { return samples_[static_cast<size_t>(index)].row; }

  Sample read(int64_t index) const override {
    const auto& [tokens, file, row] = samples_.at(index);
    Sample sample{.name = std::to_string(index), .position = index, .source = file};
    for (const auto& [input, role] : inputs_) sample.inputs.push_back(token_input(input, role, tokens));
    return sample;
  }

 private:
  std::vector<Text> samples_;
  std::vector<Filled> inputs_;
  std::string fingerprint_;
};

// --dim for each open length beside tokens: ids, mask, types and positions.
std::string length_flags(std::span<const ValueInfo> inputs) {
  std::vector<std::string> flags;
  for (const ValueInfo& input : inputs) {
    const auto role = inputs.size() == 1 ? TokenRole::kTokens : role_of(input.name);
    if (!role || *role == TokenRole::kMemory || !suits(input, *role) || input.shape->back().value > 0) continue;
    const std::string& symbol = input.shape->back().parameter;
    const std::string name =
        symbol.empty() || symbol == "?" ? fmt::format("{}:{}", input.name, input.shape->size() - 1) : symbol;
    const std::string flag = fmt::format("--dim \"{}=LENGTH\"", name);
    if (std::ranges::count(flags, flag) == 0) flags.push_back(flag);
  }
  return fmt::format("{}", fmt::join(flags, " "));
}

// Texts differ in length, and the items of a batch may not.
void require_length(const fs::path& path, std::span<const ValueInfo> inputs, const ValueInfo& tokens) {
  if ((*tokens.shape)[0].value > 1 && (*tokens.shape)[1].value < 1)
    fail(path,
         fmt::format("text, and the model input '{}' {} of a fixed batch and an open length,", tokens.name,
                     shape_text(tokens)),
         fmt::format("a length for all texts expected; give {}", length_flags(inputs)));
}

std::vector<Filled> filled_inputs(const fs::path& path, std::span<const ValueInfo> inputs) {
  std::vector<Filled> result;
  for (const ValueInfo& input : inputs) {
    const auto role = inputs.size() == 1 ? TokenRole::kTokens : role_of(input.name);
    if (!role && input.shape && input.shape->empty())
      fail(path, fmt::format("text, and the model input '{}' of one number,", input.name),
           "that number expected; give " + number_flag(input));
    if (!role || !suits(input, *role))
      fail(path, fmt::format("text, and the model input '{}', {},", input.name, shape_text(input)),
           "input_ids, [batch, tokens], and beside it attention_mask, token_type_ids, position_ids and past_* of an "
           "open length expected; give an .npz with an array for each input");
    if (*role == TokenRole::kTokens) {
      require_length(path, inputs, input);
      check_batch(std::array{(*input.shape)[1].value}, input);
    }
    result.push_back({input, *role});
  }
  return result;
}

// Of each file in turn; what is left at its end where it is two tokens, or the model takes any number. Each begins as a
// text does, with what the tokenizer puts there: models that were trained so answer other things without.
std::vector<Text> windows(const Tokenized& found, size_t length, bool whole) {
  const Tokens begin = found.begin.size() + 2 <= length ? found.begin : Tokens();
  const size_t own = length - begin.size();
  std::vector<Text> result;
  for (size_t file = 0; file < found.texts.size(); ++file) {
    const Tokens& text = found.texts[file];
    for (size_t at = 0; at < text.size(); at += own) {
      const size_t count = std::min(own, text.size() - at);
      if (count < 2 || (whole && count < own)) break;
      Text& window = result.emplace_back(Text{begin, static_cast<int64_t>(file)});
      const auto first = text.begin() + static_cast<ptrdiff_t>(at);
      window.tokens.insert(window.tokens.end(), first, first + static_cast<ptrdiff_t>(count));
    }
  }
  return result;
}

std::vector<Text> cut_off(std::vector<Tokens> texts, size_t length) {
  std::vector<Text> result;
  for (Tokens& text : texts) {
    if (text.size() > length) {
      text[length - 1] = text.back();  // the token that ends it
      text.resize(length);
    }
    result.push_back({std::move(text)});
  }
  return result;
}

std::string least_text(bool lines, size_t tokens) {
  return lines ? "a line that is not empty expected" : fmt::format("a file of {} tokens or more expected", tokens);
}

}  // namespace

bool holds_text(const fs::path& path) {
  if (!fs::is_directory(path)) return is_text(path);
  return holds_no_images_but(path, is_text);
}

std::unique_ptr<Dataset> open_text(const fs::path& path, std::span<const ValueInfo> inputs,
                                   const DatasetOptions& options) {
  if (options.text.tokenizer.empty())
    fail(path, "text and no tokenizer", "tokenizer.json beside the model expected; else give --tokenizer FILE");
  if (!options.labels.empty() || !options.preprocess.empty())
    fail(path, "text, and labels or preprocessing", "neither expected; an .npz of tokens takes labels as an array y");
  const std::vector<Filled> filled = filled_inputs(path, inputs);
  const auto tokens = std::ranges::find(filled, TokenRole::kTokens, &Filled::role);
  if (tokens == filled.end()) fail(path, "text and no input input_ids", "one expected; give an .npz");
  const int64_t fixed = (*tokens->input.shape)[1].value;
  const auto length = static_cast<size_t>(fixed > 0                 ? fixed
                                          : options.text.length > 0 ? options.text.length
                                                                    : TextOptions::kLength);
  const bool masked = std::ranges::count(filled, TokenRole::kOnes, &Filled::role) > 0;
  const std::vector<fs::path> files = text_files(path);
  if (files.empty()) fail(path, "no text", "a .txt or .md, or a folder that holds some, expected");
  Tokenized found = tokenized(path, files, options.text.tokenizer);
  const bool whole = fixed > 0 && !masked;
  std::vector<Text> all = found.lines ? cut_off(std::move(found.texts), length) : windows(found, length, whole);
  if (found.lines && whole)
    fail(path, fmt::format("lines of text, and a model of {} tokens without an attention_mask", fixed),
         "one expected, which hides what is filled up; export the model with an open length");
  std::vector<Text> samples;
  for (const int64_t i : select(std::ssize(all), options)) {
    samples.push_back(std::move(all[static_cast<size_t>(i)]));
    samples.back().row = i;
  }
  if (samples.empty()) fail(path, "no sample", least_text(found.lines, whole ? length : 2));
  std::string print = fmt::format("text {}\n", length);
  for (const Text& sample : samples) print += fmt::format("{}\n", fmt::join(sample.tokens, " "));
  return std::make_unique<TextDataset>(std::move(samples), filled, sha256_hex(print));
}

}  // namespace seqto::internal
