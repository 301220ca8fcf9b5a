#include "base/utf8.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace seqto::internal {
namespace {

TEST(Utf8, IsWhatJsonTakes) {
  const std::pair<std::string, bool> cases[] = {{"", true},
                                                {"conv_1", true},
                                                {"\xC3\xA4\xE5\xB1\x82\xF0\x9F\x98\x80", true},
                                                {"\xE5", false},
                                                {"a\x80", false},
                                                {"\xC0\xAF", false},
                                                {"\xE0\x80\xAF", false},
                                                {"\xED\xA0\x80", false},
                                                {"\xF4\x90\x80\x80", false},
                                                {"\xF8\x88\x80\x80\x80", false},
                                                {"\xFF", false}};
  for (const auto& [text, valid] : cases) {
    EXPECT_EQ(is_utf8(text), valid) << ascii(text);
    if (valid) EXPECT_NO_THROW(nlohmann::json(text).dump());
    else EXPECT_THROW(nlohmann::json(text).dump(), nlohmann::json::type_error) << ascii(text);
  }
  EXPECT_EQ(ascii("a\xE5\n"), "a\\xE5\\x0A");
}

TEST(Utf8, LowerCaseOfAllScripts) {
  EXPECT_EQ(lower_case("Ärger, ÉA Ł"), "ärger, éa ł");
  EXPECT_EQ(lower_case("ПРИВЕТ Ё Ѣ ΑΒΓ Ώ Աբ Ế 東京 x"), "привет ё ѣ αβγ ώ աբ ế 東京 x");
  EXPECT_EQ(lower_case("AB\xE5"), "ab\xE5");
  EXPECT_EQ(lower_case(""), "");
}

}  // namespace
}  // namespace seqto::internal
