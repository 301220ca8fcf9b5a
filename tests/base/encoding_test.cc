#include <gtest/gtest.h>

#include "base/base64.h"
#include "base/hash.h"

namespace seqto {
namespace {

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(Base64, Rfc4648) {
  for (auto [plain, coded] : {std::pair<const char*, const char*>{"", ""},
                              {"f", "Zg=="},
                              {"fo", "Zm8="},
                              {"foo", "Zm9v"},
                              {"foobar", "Zm9vYmFy"}}) {
    EXPECT_EQ(base64(bytes(plain)), coded);
    auto back = from_base64(coded);
    ASSERT_TRUE(back);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(back->data()), back->size()), plain);
  }
}

TEST(Base64, WhatIsNotBase64IsNothing) {
  EXPECT_FALSE(from_base64("Zg="));
  EXPECT_FALSE(from_base64("Z?=="));
  EXPECT_FALSE(from_base64("Zm9vY"));
}

TEST(Xxh3, KnownAnswers) {
  EXPECT_EQ(xxh3_hex({}), "99aa06d3014798d86001c324468d497f");  // XXH3_128bits of nothing, from its specification
  EXPECT_NE(xxh3_hex(bytes("a")), xxh3_hex(bytes("b")));
  EXPECT_EQ(xxh3_hex(bytes("a")).size(), 32u);
}

}  // namespace
}  // namespace seqto
