// An encoder and its decoder as one model, and apart again.
#include "model/pair.h"

#include <gtest/gtest.h>

#include <set>

#include "seqto/error.h"

namespace seqto::internal {
namespace {

const char* const kEncoder = R"(<ir_version: 8, opset_import: ["" : 17]>
encoder (float[batch, 4] features, int64[batch, length] attention_mask) => (float[batch, 4] last_hidden_state)
<float[4, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}> {
  encoder_hidden_states = Relu (features)
  last_hidden_state = MatMul (encoder_hidden_states, w)
})";

// `w` is read by a body, whose names stay.
const char* const kDecoder = R"(<ir_version: 8, opset_import: ["" : 17]>
decoder (int64[batch, length] encoder_attention_mask, float[batch, 4] encoder_hidden_states, bool cached) => (float[batch, 4] logits)
<float[4, 4] w = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}> {
  read = If (cached) <
    then_branch = first () => (float[batch, 4] a) { a = Identity (encoder_hidden_states) },
    else_branch = second () => (float[batch, 4] b) { b = MatMul (encoder_hidden_states, w) }
  >
  mask = Cast <to = 1> (encoder_attention_mask)
  total = ReduceSum <keepdims = 0> (mask)
  logits = Mul (read, total)
})";

std::set<std::string> names(const std::vector<ValueInfo>& values) {
  std::set<std::string> result;
  for (const ValueInfo& v : values) result.insert(v.name);
  return result;
}

std::string failure(const std::string& encoder, const std::string& decoder) {
  try {
    join({parse_model_text(encoder), "e"}, {parse_model_text(decoder), "d"}, {});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidInput);
    return error.what();
  }
  return "";
}

std::string with(std::string text, const std::string& before, const std::string& after) {
  for (size_t at = 0; (at = text.find(before, at)) != std::string::npos; at += after.size())
    text.replace(at, before.size(), after);
  return text;
}

TEST(Pair, IsAValidModelOfBothAndComesApart) {
  const Model encoder = parse_model_text(kEncoder), decoder = parse_model_text(kDecoder);
  const Model joined = join({encoder, "e"}, {decoder, "d"}, Writing{.start = 7, .ends = {2}, .most = 9});
  check_model(joined);
  EXPECT_EQ(names(joined.graph.inputs), (std::set<std::string>{"features", "attention_mask", "cached"}));
  EXPECT_EQ(names(joined.graph.outputs), std::set<std::string>{"logits"});
  const Model read = parse_model(serialize(joined));
  const auto pair = pair_of(read);
  ASSERT_TRUE(pair && pair->writing);
  EXPECT_EQ(pair->writing->start, 7);
  const auto [first, second] = take_apart(read, *pair);
  for (const auto& [half, whole] : {std::pair(&first, &encoder), std::pair(&second, &decoder)}) {
    check_model(*half);
    EXPECT_EQ(names(half->graph.inputs), names(whole->graph.inputs));
    EXPECT_EQ(names(half->graph.outputs), names(whole->graph.outputs));
    EXPECT_EQ(half->graph.nodes.size(), whole->graph.nodes.size());
    EXPECT_EQ(half->graph.initializers.size(), 1U);
    EXPECT_FALSE(pair_of(*half));
  }
}

TEST(Pair, HasTheHigherOpsetOfBoth) {
  const Model joined =
      join({parse_model_text(kEncoder), "e"}, {parse_model_text(with(kDecoder, "\"\" : 17", "\"\" : 18")), "d"}, {});
  EXPECT_EQ(joined.opset(), 18);
  EXPECT_FALSE(pair_of(joined)->writing);
}

TEST(Pair, SaysWhatDoesNotMeet) {
  EXPECT_NE(failure(kDecoder, kEncoder).find("encoder_hidden_states for last_hidden_state"), std::string::npos);
  EXPECT_NE(failure(with(kEncoder, "(float[batch, 4] last_hidden_state)",
                         "(float[batch, 4] last_hidden_state, float[batch, 4] encoder_hidden_states)"),
                    kDecoder)
                .find("an output last_hidden_state of the first model"),
            std::string::npos);
  EXPECT_NE(failure(with(kEncoder, "features", "w2"), with(kDecoder, "w", "w2")).find("a tensor w2 in both models"),
            std::string::npos);
}

TEST(Pair, NonsenseInItsPlaceIsNone) {
  Model model = parse_model_text(kEncoder);
  for (const char* text : {"", "{", "[]", "{\"encoder\": 1}", "{\"encoder\": {\"file\": 3}}"}) {
    model.metadata = {{"seqto.pair", text}};
    EXPECT_FALSE(pair_of(model)) << text;
  }
  Model joined = join({parse_model_text(kEncoder), "e"}, {parse_model_text(kDecoder), "d"}, {});
  std::string& text = joined.metadata.back().second;
  for (const char* file : {"../e", "/tmp/e", "..", "", "d", "a\\\\b"}) {
    const std::string before = text;
    text = with(text, "\"file\":\"e\"", std::string("\"file\":\"") + file + "\"");
    ASSERT_NE(text, before);
    EXPECT_FALSE(pair_of(joined)) << file;
    text = before;
  }
  EXPECT_TRUE(pair_of(joined));
}

TEST(Pair, ReadsGenerationConfigs) {
  const auto writing = parse_writing(
      R"({"decoder_start_token_id": 5, "eos_token_id": [1, 2], "forced_decoder_ids": [[1, null], [2, 8]], "max_length": 4})",
      "c.json");
  ASSERT_TRUE(writing);
  EXPECT_EQ(writing->ends, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(writing->forced, (std::vector<std::pair<int64_t, int64_t>>{{2, 8}}));
  const auto marian = parse_writing(R"({"decoder_start_token_id": 9, "eos_token_id": 0, "suppress_tokens": [3],
                                       "forced_bos_token_id": 7, "bad_words_ids": [[9], [0], [4, 5], "x", []]})",
                                    "c.json");
  ASSERT_TRUE(marian);
  EXPECT_EQ(marian->suppressed, (std::vector<int64_t>{3, 9}));
  EXPECT_EQ(marian->forced, (std::vector<std::pair<int64_t, int64_t>>{{1, 7}}));
  const auto plain =
      parse_writing(R"({"decoder_start_token_id": 9, "bad_words_ids": null, "forced_bos_token_id": null})", "c.json");
  ASSERT_TRUE(plain);
  EXPECT_TRUE(plain->suppressed.empty() && plain->forced.empty());
  EXPECT_FALSE(parse_writing("{}", "c.json"));
  EXPECT_THROW(parse_writing("[", "c.json"), Error);
}

}  // namespace
}  // namespace seqto::internal
