// Schemes with fields, as one word.
#include <gtest/gtest.h>

#include "seqto/error.h"
#include "seqto/quantize.h"

namespace seqto {
namespace {

TEST(DetailedScheme, IsAWordThatReadsBack) {
  EXPECT_EQ(to_string(DetailedScheme(Scheme::kInt8)), "int8");
  const DetailedScheme scheme(
      Scheme::kInt8, {.per_channel = false, .block_size = 32, .method = "percentile:99.99", .learned_rounding = false});
  const std::string word = to_string(scheme);
  EXPECT_EQ(word, "int8+block_size=32+method=percentile:99.99+per_channel=false+rounding=nearest");
  EXPECT_EQ(parse_detailed_scheme(word), scheme);
  EXPECT_EQ(parse_detailed_scheme("float16"), DetailedScheme(Scheme::kFloat16));
}

TEST(DetailedScheme, SaysWhatIsWrongInTheWord) {
  const auto error_of = [](const char* word) {
    try {
      parse_detailed_scheme(word);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kUsage);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(error_of("int7+method=mse").find("'int7'"), std::string::npos);
  EXPECT_NE(error_of("int8+methods=mse").find("field 'methods' found; one of"), std::string::npos);
  EXPECT_NE(error_of("int8+mse").find("FIELD=VALUE expected"), std::string::npos);
  EXPECT_NE(error_of("int8+").find("FIELD=VALUE expected"), std::string::npos);
  EXPECT_NE(error_of("int8+per_channel=often").find("int8+per_channel=often"), std::string::npos);
}

TEST(DetailedScheme, IsWhatAPlanHoldsOfALayer) {
  Plan plan{.schemes = {{"a", Scheme::kInt8}, {"b", Scheme::kFloat16}}};
  plan.options["a"].method = "mse";
  plan.options["b"];  // empty: as if absent
  EXPECT_EQ(detailed_scheme(plan, "a"), parse_detailed_scheme("int8+method=mse"));
  EXPECT_EQ(detailed_scheme(plan, "b"), DetailedScheme(Scheme::kFloat16));
  EXPECT_EQ(detailed_scheme(plan, "c"), DetailedScheme());
}

}  // namespace
}  // namespace seqto
