#include "base/json.h"

#include <gtest/gtest.h>

#include "seqto/error.h"

namespace seqto::internal {
namespace {

std::string nested(int depth) {
  return std::string(static_cast<size_t>(depth), '[') + std::string(static_cast<size_t>(depth), ']');
}

TEST(Json, DeepTextsAreRefused) {
  EXPECT_TRUE(parse_json(nested(kDeepestJson)).is_array());
  EXPECT_THROW(parse_json(nested(kDeepestJson + 1)), nlohmann::json::parse_error);
  EXPECT_THROW(parse_json_if_any(nested(100'000)), Error);
  // nlohmann reads so many levels and dies where it copies them.
  EXPECT_THROW(parse_json(R"({"a":)" + nested(100'000) + "}"), nlohmann::json::parse_error);
}

TEST(Json, BracketsInTextsAreNoLevels) {
  EXPECT_TRUE(parse_json(R"(["\"[[[[)" + std::string(200, '{') + R"(\\", [1]])").is_array());
  EXPECT_EQ(parse_json("[" + nested(50) + "," + nested(50) + "," + nested(50) + "]").size(), 3u);
}

TEST(Json, WhatIsNoJsonIsDiscarded) {
  EXPECT_TRUE(parse_json_if_any("no json").is_discarded());
  EXPECT_THROW(parse_json("no json"), nlohmann::json::parse_error);
  EXPECT_EQ(parse_json_if_any<nlohmann::ordered_json>(R"({"b":1,"a":2})").begin().key(), "b");
}

}  // namespace
}  // namespace seqto::internal
