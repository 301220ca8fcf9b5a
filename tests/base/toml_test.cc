// What TOML's parser may be given, and what is said about the rest.
#include "base/toml.h"

#include <gtest/gtest.h>

namespace seqto::internal {
namespace {

// "" where the text is read.
std::string fault(std::string_view text) {
  const toml::parse_result parsed = parse_toml(text, "x.toml");
  return parsed ? "" : std::string(parsed.error().description());
}

TEST(ParseTomlTest, ReadsWhatTomlAllows) {
  for (const char* text :
       {"", "a = 1\r\nb = \"é\"\r\n", "\"é\" = 1\n[b.\"é\"]\nc.\"é\" = 2",
        "a = [\n\"é\", # don't, é\n'ü', {b = \"x\", \"é\".c = \"y\"}]\n\"d\" = 1",
        "a = \"\"\"é\"\"\"\"\nb = '''é'''''\nc = \"\"\nd = \"\"\"\n= ' , \\\"é\"\"\"",
        "# \"é\n[[a]]\nb = {'c' = [['é'], [1.5]]}\n'd' = 2", "\xEF\xBB\xBF\"a\" = 1979-05-27T07:32:00Z",
        "a = \"\"\"\\\n  b é\"\"\"", "\"a.b\" = '~é'\n# . . . ."})
    EXPECT_EQ(fault(text), "") << text;
  EXPECT_EQ(fault("# " + std::string(5000, '.')), "");
  EXPECT_EQ(*parse_toml("a = 'é'", "").table()["a"].value<std::string>(), "é");
}

TEST(ParseTomlTest, RefusesLettersOutsideQuotes) {
  for (const char* text : {"é = 1", "a = é", "a = \"\\é\"", "a = \"\"\"x\"\"\"\"é\"", "a = 1 é", "a = 0\"é\"",
                           "a = 1.\"é\"", "a = [1, 1.'é']", "a = {b = 1.'é'}", "a = 'b' 'é'", "a = 1=\"é\"",
                           "a = [1, 1='é']", "a = {b = 1='é'}", "a.é = 1", "[é]"})
    EXPECT_NE(fault(text), "") << text;
  EXPECT_TRUE(fault("é = 1").ends_with("'~' (for a letter outside ASCII, which needs quotes)")) << fault("é = 1");
  EXPECT_EQ(fault("a = \"\"\"\\\n  é\"\"\""), "a letter outside ASCII behind a backslash at a line's end");
}

TEST(ParseTomlTest, RefusesDeepKeys) {
  std::string dots = "b = 1\na", quoted = "b = 1\n'..'";
  for (int i = 0; i < 1001; ++i) dots += ".a", quoted += " . '..'";
  for (const std::string& key : {dots, quoted}) {
    const toml::parse_result parsed = parse_toml(key + " = 1", "x.toml");
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error().description(), "a key of more than 1,000 parts");
    EXPECT_EQ(parsed.error().source().begin.line, 2U);
  }
}

}  // namespace
}  // namespace seqto::internal
