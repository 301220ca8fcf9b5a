// Text files as token ids, by the package tokenizers; skipped where no Python has it.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/files.h"
#include "base/run_command.h"
#include "seqto/dataset.h"
#include "seqto/error.h"

namespace seqto {
namespace {

namespace fs = std::filesystem;

// A token a word. `begin`, `end`: what stands around each text, "[CLS]" and "[SEP]" or nothing.
std::string tokenizer(const std::string& begin = "", const std::string& end = "") {
  const auto special = [](const std::string& token) {
    return R"({"SpecialToken": {"id": ")" + token + R"(", "type_id": 0}})";
  };
  std::string single = R"({"Sequence": {"id": "A", "type_id": 0}})";
  if (!begin.empty()) single = special(begin) + ", " + single;
  if (!end.empty()) single += ", " + special(end);
  const std::string frame = R"({"type": "TemplateProcessing", "single": [)" + single + R"(],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}],
    "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [1], "tokens": ["[CLS]"]},
                       "[SEP]": {"id": "[SEP]", "ids": [2], "tokens": ["[SEP]"]}}})";
  return R"({"version": "1.0", "truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0},
    "padding": null, "added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "Whitespace"}, "decoder": null,
    "post_processor": )" +
         frame +
         R"(, "model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "[CLS]": 1, "[SEP]": 2, "a": 3, "b": 4, "c": 5}}})";
}

ValueInfo ids(std::string name, Dimension length) {
  return {.name = std::move(name), .type = DataType::kInt64, .shape = std::vector<Dimension>{{-1, "batch"}, length}};
}
const Dimension kOpen{-1, "tokens"};

class Text : public testing::Test {
 protected:
  void SetUp() override {
    const std::string python = SEQTO_SOURCE_DIR "/.deps/venv/bin/python";
    setenv("SEQTO_PYTHON", fs::exists(python) ? python.c_str() : "python3", 1);
    const Finished has = run_command({std::getenv("SEQTO_PYTHON"), "-c", "import tokenizers"}, 60, plain_env(), "test");
    if (!has.good) GTEST_SKIP() << "the package tokenizers is not there";
    options_.text.tokenizer = write("tokenizer.json", tokenizer());
  }
  std::string write(const std::string& name, const std::string& text) {
    fs::create_directories((folder_.path / name).parent_path());
    write_file_atomic(folder_.path / name, text);
    return (folder_.path / name).string();
  }
  std::vector<std::vector<int64_t>> samples(const fs::path& path, const std::vector<ValueInfo>& inputs) const {
    std::vector<std::vector<int64_t>> all;
    const auto data = open_dataset(path, inputs, options_);
    for (int64_t i = 0; i < data->size(); ++i) {
      const Sample sample = data->read(i);
      EXPECT_EQ(sample.tokens.empty(), false);
      all.emplace_back(sample.inputs[0].values<int64_t>().begin(), sample.inputs[0].values<int64_t>().end());
    }
    return all;
  }
  std::string error(const std::string& path, const std::vector<ValueInfo>& inputs) const {
    try {
      open_dataset(path, inputs, options_);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }

  TemporaryFolder folder_;
  DatasetOptions options_;
};

TEST_F(Text, OfALanguageModelIsCutIntoWindows) {
  options_.text.length = 3;
  write("text/b.txt", "a b\nc a b");
  write("text/deep/a.md", "c c\n");
  write("text/left.out", "b b b");
  const std::vector<std::vector<int64_t>> expected{{3, 4, 5}, {3, 4}, {5, 5}};
  EXPECT_EQ(samples(folder_.path / "text", {ids("input_ids", kOpen)}), expected);
  const std::vector<ValueInfo> info{ids("input_ids", kOpen)};
  const auto data = open_dataset(folder_.path / "text", info, options_);
  EXPECT_EQ(data->read(0).source, data->read(1).source);
  EXPECT_NE(data->read(1).source, data->read(2).source);
  const std::vector<std::vector<int64_t>> whole{{3, 4, 5}};
  EXPECT_EQ(samples(folder_.path / "text", {ids("input_ids", {3, ""})}), whole) << "the model takes three tokens";
}

TEST_F(Text, WindowsBeginAsTheTokenizerBeginsAText) {
  options_.text.tokenizer = write("tokenizer.json", tokenizer("[CLS]"));
  options_.text.length = 3;
  const std::string file = write("text.txt", "a b c a b");
  const std::vector<std::vector<int64_t>> expected{{1, 3, 4}, {1, 5, 3}};
  EXPECT_EQ(samples(file, {ids("input_ids", kOpen)}), expected);
}

TEST_F(Text, OfAnEncoderIsALineEach) {
  options_.text.length = 4;
  options_.text.tokenizer = write("tokenizer.json", tokenizer("[CLS]", "[SEP]"));
  const std::string file = write("lines.txt", "a b\n\nc a b c a\n");
  const std::vector<std::vector<int64_t>> expected{{1, 3, 4, 2}, {1, 5, 3, 2}};
  EXPECT_EQ(samples(file, {ids("input_ids", kOpen), ids("attention_mask", kOpen)}), expected);
  const std::vector<ValueInfo> both{ids("input_ids", kOpen), ids("attention_mask", kOpen)};
  EXPECT_EQ(open_dataset(file, both, options_)->read(1).source, -1);
  EXPECT_THROW(samples(file, {ids("input_ids", {8, ""})}), Error) << "nothing hides what is filled up";
}

TEST_F(Text, FillsTheOtherInputs) {
  const ValueInfo past{.name = "past_key_values.0.key",
                       .type = DataType::kFloat,
                       .shape = std::vector<Dimension>{{-1, "batch"}, {2, ""}, {-1, "past"}, {4, ""}}};
  const std::vector<ValueInfo> inputs{ids("input_ids", {4, ""}), ids("attention_mask", {4, ""}),
                                      ids("position_ids", {4, ""}), past};
  const Sample sample = open_dataset(write("short.txt", "a b c"), inputs, options_)->read(0);
  const auto values = [&](size_t i) {
    const auto found = sample.inputs[i].values<int64_t>();
    return std::vector<int64_t>(found.begin(), found.end());
  };
  EXPECT_EQ(values(0), (std::vector<int64_t>{3, 4, 5, 0}));
  EXPECT_EQ(values(1), (std::vector<int64_t>{1, 1, 1, 0}));
  EXPECT_EQ(values(2), (std::vector<int64_t>{0, 1, 2, 0}));
  EXPECT_EQ(sample.inputs[3].dims(), (std::vector<int64_t>{1, 2, 0, 4}));
  EXPECT_EQ(sample.counted, (std::vector<char>{1, 1, 1, 0}));
  EXPECT_EQ(sample.tokens, (std::vector<int64_t>{3, 4, 5}));
}

// onnxruntime's export of GPT-2: keys and values in one, [2, batch, heads, past, size].
TEST_F(Text, AnEmptyPastOfFiveAxes) {
  const auto past = [](std::vector<Dimension> shape) {
    return ValueInfo{.name = "past_0", .type = DataType::kFloat, .shape = std::move(shape)};
  };
  const std::string file = write("short.txt", "a b c");
  const auto dims = [&](const ValueInfo& input) {
    const std::vector<ValueInfo> inputs{ids("input_ids", kOpen), input};
    return open_dataset(file, inputs, options_)->read(0).inputs[1].dims();
  };
  EXPECT_EQ(dims(past({{2, ""}, {-1, "batch"}, {12, ""}, {-1, "past"}, {64, ""}})),
            (std::vector<int64_t>{2, 1, 12, 0, 64}));
  EXPECT_EQ(dims(past({{-1, "batch"}, {2, ""}, {12, ""}, {-1, "past"}, {64, ""}})),
            (std::vector<int64_t>{1, 2, 12, 0, 64}));
}

TEST_F(Text, AFixedBatchGetsSoManyAtOnce) {
  const auto of = [](const char* name, std::vector<Dimension> shape, DataType type = DataType::kInt64) {
    return ValueInfo{.name = name, .type = type, .shape = std::move(shape)};
  };
  const Dimension two{2, ""};
  const std::vector<ValueInfo> inputs{of("input_ids", {two, {-1, "n"}}), of("attention_mask", {two, {-1, "past + n"}}),
                                      of("cache_position", {{2, ""}}),
                                      of("past_0", {two, two, {12, ""}, {-1, "past"}, {64, ""}}, DataType::kFloat)};
  const std::string file = write("text.txt", "a b c a b c a");
  options_.dims = {{"n", 2}, {"past + n", 2}};
  const auto data = open_dataset(file, inputs, options_);
  ASSERT_EQ(data->size(), 1) << "what is left is no window";
  const Sample sample = data->read(0);
  EXPECT_TRUE(sample.inputs[0].equals(int64_tensor({2, 2}, {3, 4, 5, 3})));
  EXPECT_TRUE(sample.inputs[1].equals(int64_tensor({2, 2}, {1, 1, 1, 1})));
  EXPECT_TRUE(sample.inputs[2].equals(int64_tensor({2}, {0, 1}))) << "places, which have no batch";
  EXPECT_EQ(sample.inputs[3].dims(), (std::vector<int64_t>{2, 2, 12, 0, 64}));
  options_.dims.clear();
  EXPECT_NE(error(file, inputs).find("give --dim \"n=LENGTH\" --dim \"past + n=LENGTH\""), std::string::npos)
      << error(file, inputs);
}

TEST_F(Text, AByteOrderMarkIsNoText) {
  EXPECT_EQ(samples(write("marked.txt",
                          "\xef\xbb\xbf"
                          "a b"),
                    {ids("input_ids", kOpen)}),
            (std::vector<std::vector<int64_t>>{{3, 4}}));
}

TEST_F(Text, ErrorsSayWhatIsWrong) {
  const std::string file = write("text.txt", "a b c");
  EXPECT_NE(error(file, {ids("other", kOpen), ids("input_ids", kOpen)}).find("the model input 'other'"),
            std::string::npos);
  const ValueInfo number{.name = "num_logits_to_keep", .type = DataType::kInt64, .shape = std::vector<Dimension>{}};
  EXPECT_NE(error(file, {ids("input_ids", kOpen), number}).find("--input num_logits_to_keep=0"), std::string::npos);
  EXPECT_NE(error(write("latin.txt", "\xff\xfe"), {ids("input_ids", kOpen)}).find("no text in UTF-8"),
            std::string::npos);
  const std::string empty = write("empty.txt", "");
  EXPECT_NE(error(empty, {ids("input_ids", kOpen)}).find("a file of 2 tokens or more expected"), std::string::npos);
  EXPECT_NE(error(empty, {ids("input_ids", {8, ""})}).find("a file of 8 tokens or more expected"), std::string::npos);
  options_.text.tokenizer = write("framed.json", tokenizer("[CLS]", "[SEP]"));
  EXPECT_NE(error(empty, {ids("input_ids", kOpen)}).find("a line that is not empty expected"), std::string::npos);
  const std::string python = std::getenv("SEQTO_PYTHON");
  setenv("SEQTO_PYTHON", "/nope", 1);
  EXPECT_NE(error(file, {ids("input_ids", kOpen)}).find("SEQTO_PYTHON names /nope"), std::string::npos);
  setenv("SEQTO_PYTHON", python.c_str(), 1);
  options_.text.tokenizer = file;
  EXPECT_NE(error(file, {ids("input_ids", kOpen)}).find("no tokenizer.json"), std::string::npos);
  options_.text.tokenizer.clear();
  EXPECT_NE(error(file, {ids("input_ids", kOpen)}).find("--tokenizer"), std::string::npos);
}

}  // namespace
}  // namespace seqto
