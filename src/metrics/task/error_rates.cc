// How many words, or characters, a recognizer of speech gets wrong: scores of each frame, read greedily (CTC).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <sstream>

#include "base/files.h"
#include "base/json.h"
#include "base/utf8.h"
#include "metrics/task/error_rates.h"
#include "metrics/task/task_metric_kinds.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

// The text of each score's place; blank and other marks have none.
struct Vocabulary {
  std::map<int64_t, std::string> texts;
  int64_t blank = -1;
};

[[noreturn]] void refuse(const std::string& file, const std::string& found) {
  throw Error(Code::kInvalidInput,
              fmt::format("[metric] {}: {} found; a vocabulary with a blank expected: a vocab.json, {{\"<pad>\": 0, "
                          "\"|\": 4, \"a\": 5}}, or a tokens.txt, a token and its number on each line",
                          file, found));
}

std::map<std::string, int64_t> read_tokens(const std::string& file) {
  std::map<std::string, int64_t> tokens;
  const std::string text = read_file(file);
  if (const nlohmann::json json = parse_json_if_any(text); json.is_object()) {
    for (const auto& [token, number] : json.items()) {
      if (!number.is_number_integer()) refuse(file, fmt::format("no number for the token '{}'", token));
      tokens[token] = number.get<int64_t>();
    }
    return tokens;
  }
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    const size_t at = line.find_last_of(" \t");
    int64_t number = 0;
    const char* end = line.data() + line.size();
    if (at == std::string::npos || std::from_chars(line.data() + at + 1, end, number).ptr != end)
      refuse(file, fmt::format("the line '{}'", ascii(line)));
    tokens[line.substr(0, at)] = number;
  }
  return tokens;
}

Vocabulary read_vocabulary(const std::string& file) {
  Vocabulary vocabulary;
  const std::map<std::string, int64_t> tokens = read_tokens(file);
  for (const char* name : {"<blank>", "<blk>", "[BLANK]", "<pad>", "[PAD]"})
    if (const auto found = tokens.find(name); vocabulary.blank < 0 && found != tokens.end())
      vocabulary.blank = found->second;
  if (vocabulary.blank < 0) refuse(file, fmt::format("{} tokens, and none of <blank>, <blk>, <pad>", tokens.size()));
  for (const auto& [token, number] : tokens) {
    const bool is_mark = token.size() > 2 && (token.front() == '<' || token.front() == '[') &&
                         (token.back() == '>' || token.back() == ']');
    if (is_mark) continue;
    std::string text = token == "|" ? " " : token;
    for (size_t at; (at = text.find("\u2581")) != std::string::npos;) text.replace(at, 3, " ");
    vocabulary.texts[number] = text;
  }
  return vocabulary;
}

using Units = std::vector<std::string>;

Units words(const std::string& text) {
  std::istringstream stream(text);
  Units units;
  for (std::string word; stream >> word;) units.push_back(word);
  return units;
}

// Of its words with one space between them.
Units characters(const std::string& text) {
  Units units;
  for (const std::string& word : words(text)) {
    if (!units.empty()) units.emplace_back(" ");
    for (const char c : word) {
      if ((static_cast<unsigned char>(c) & 0xc0) == 0x80 && !units.empty()) units.back() += c;
      else units.emplace_back(1, c);
    }
  }
  return units;
}

// Substitutions, deletions and insertions from one to the other: Levenshtein's distance.
size_t edits(const Units& from, const Units& to) {
  std::vector<size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < from.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < to.size(); ++j) {
      const size_t replaced = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

Units units_of(const std::string& name, const std::string& text) {
  return name == "wer" ? words(lower_case(text)) : characters(lower_case(text));
}

// Marks of a tokenizer, "<|en|>" and "</s>", are no text.
std::string without_marks(const std::string& text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text[at] == '<' ? text.find('>', at) : std::string::npos;
    if (end != std::string::npos && text.find_first_of(" \t\n", at) > end) at = end + 1;
    else result += text[at++];
  }
  return result;
}

bool is_tokenizer(const std::string& file) {
  if (std::filesystem::is_directory(file)) return true;
  const nlohmann::json json = parse_json_if_any(read_file(file));
  return json.is_object() && json.contains("model") && json.at("model").is_object();
}

// All edits over all units of the transcripts.
class ErrorRate : public NamedMetric {
 public:
  // A tokenizer is for models that write tokens, which are not measured here.
  ErrorRate(std::string name, const std::string& file) : NamedMetric(std::move(name), false) {
    if (!is_tokenizer(file)) vocabulary_ = read_vocabulary(file);
  }

  Score score(const Answers& answers, const Answers&, std::span<const Truth> truths) const override {
    constexpr const char* kScores = "scores of each frame, [1, frames, tokens] or [frames, 1, tokens],";
    if (answers.outputs.empty()) fail("a model without outputs", kScores);
    if (vocabulary_.blank < 0) fail("a tokenizer, and a model that is no encoder with its decoder,", kScores);
    const std::vector<int64_t>& dims = answers.dims[answers.first];
    if (!are_frames(dims)) fail(fmt::format("a first output of shape [{}]", fmt::join(dims, ", ")), kScores);
    const auto width = static_cast<size_t>(dims.back());
    if (vocabulary_.blank >= dims.back() ||
        (!vocabulary_.texts.empty() && vocabulary_.texts.rbegin()->first >= dims.back()))
      fail(fmt::format("{} scores for a vocabulary of more", width), "one for each of its tokens");
    std::vector<std::string> said, heard;
    for (size_t i = 0; i < truths.size(); ++i) {
      if (!truths[i].transcript) continue;
      said.push_back(*truths[i].transcript);
      heard.push_back(text_of(answers.outputs[answers.first].row(static_cast<int64_t>(i)), width));
    }
    return error_rate(name(), said, heard);
  }

 private:
  [[noreturn]] void fail(const std::string& found, const std::string& expected) const {
    throw Error(Code::kInvalidInput, fmt::format("[metric] {}: {} found; {} expected; leave --metric {} out", name(),
                                                 found, expected, name()));
  }

  // The likeliest token of each frame, repeated ones once, without blanks (Graves et al. 2006).
  std::string text_of(std::span<const float> scores, size_t width) const {
    std::string text;
    int64_t before = -1;
    for (size_t at = 0; at + width <= scores.size(); at += width) {
      const auto frame = scores.subspan(at, width);
      const int64_t token = std::ranges::max_element(frame) - frame.begin();
      if (token != before && token != vocabulary_.blank)
        if (const auto found = vocabulary_.texts.find(token); found != vocabulary_.texts.end()) text += found->second;
      before = token;
    }
    return text;
  }

  Vocabulary vocabulary_;
};

}  // namespace

bool are_frames(const std::vector<int64_t>& dims) { return dims.size() == 3 && (dims[0] == 1 || dims[1] == 1); }

Score error_rate(const std::string& name, std::span<const std::string> said, std::span<const std::string> heard) {
  if (std::ranges::all_of(said, [](const std::string& text) { return words(text).empty(); }))
    throw Error(Code::kInvalidInput,
                fmt::format("[metric] {}: no sample with a transcript found; --labels FILE.csv with the columns "
                            "file,transcript expected; leave --metric {} out",
                            name, name));
  std::vector<double> wrong, all;
  for (size_t i = 0; i < said.size(); ++i) {
    const Units wanted = units_of(name, said[i]);
    wrong.push_back(static_cast<double>(edits(wanted, units_of(name, heard[i]))));
    all.push_back(static_cast<double>(wanted.size()));
  }
  const auto rate = [&](std::span<const double> counts) {
    double errors = 0, length = 0;
    for (size_t i = 0; i < wrong.size(); ++i) errors += counts[i] * wrong[i], length += counts[i] * all[i];
    return length > 0 ? errors / length : 0;
  };
  Score score{.value = rate(std::vector<double>(wrong.size(), 1))};
  for_each_resample(wrong.size(), kReplicates,
                    [&](std::span<const double> counts) { score.replicates.push_back(rate(counts)); });
  return score;
}

std::vector<std::string> written_texts(std::span<const Tokens> ids, const std::string& file) {
  std::vector<std::string> texts;
  if (is_tokenizer(file)) {
    for (const std::string& text : texts_of(ids, file)) texts.push_back(without_marks(text));
    return texts;
  }
  const Vocabulary vocabulary = read_vocabulary(file);
  for (const Tokens& tokens : ids) {
    std::string& text = texts.emplace_back();
    for (const int64_t token : tokens)
      if (const auto found = vocabulary.texts.find(token); found != vocabulary.texts.end()) text += found->second;
  }
  return texts;
}

std::shared_ptr<const Metric> make_error_rate(std::string name, const std::string& file) {
  return std::make_shared<ErrorRate>(std::move(name), file);
}

}  // namespace seqto::internal
