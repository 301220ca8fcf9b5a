// What TOML's parser may be given.
#include "base/toml.h"

#include <gtest/gtest.h>

namespace seqto::internal {
namespace {

TEST(UnfitForParserTest, PassesWhatTomlAllows) {
  for (const char* text :
       {"", "a = 1\r\nb = \"é\"\r\n", "\"é\" = 1\n[b.\"é\"]\nc.\"é\" = 2",
        "a = [\n\"é\", # don't\n'ü', {b = \"x\", \"é\".c = \"y\"}]\n\"d\" = 1",
        "a = \"\"\"é\"\"\"\"\nb = '''é'''''\nc = \"\"\nd = \"\"\"\n= ' , \\\"é\"\"\"",
        "# \"é\n[[a]]\nb = {'c' = [['é'], [1.5]]}\n'd' = 2", "\xEF\xBB\xBF\"a\" = 1979-05-27T07:32:00Z"}) {
    EXPECT_EQ(unfit_for_parser(text), "") << text;
    EXPECT_TRUE(toml::parse(text)) << text;
  }
}

TEST(UnfitForParserTest, RefusesWhereTheParserWouldReadLettersOutsideQuotes) {
  constexpr std::string_view kLetter = "a letter outside ASCII without quotes around it";
  for (const char* text : {"é = 1", "a = é", "a = \"\\é\"", "a = \"\"\"x\"\"\"\"é\"", "a = 1 é"})
    EXPECT_EQ(unfit_for_parser(text), kLetter) << text;
  for (const char* text : {"a = 0\"é\"", "a = 1.\"é\"", "a = [1, 1.'é']", "a = {b = 1.'é'}", "a = 'b' 'é'"})
    EXPECT_EQ(unfit_for_parser(text), "a quote in the middle of a word") << text;
  for (const char* text : {"a = 1=\"é\"", "a = [1, 1='é']", "a = {b = 1='é'}"})
    EXPECT_EQ(unfit_for_parser(text), "an equals sign in a value") << text;
  std::string dots = "a";
  for (int i = 0; i < 101; ++i) dots += ".a";
  EXPECT_EQ(unfit_for_parser(dots + " = 1"), "a key of more than 100 parts");
}

}  // namespace
}  // namespace seqto::internal
