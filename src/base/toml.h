// Room: base. The one door for TOML texts, which are read without exceptions.
#pragma once

#include <string_view>

#define TOML_EXCEPTIONS 0
// One of its assertions is about what is in the file, as "[=]", which its parser refuses by itself.
#define TOML_ASSERT(expression) static_assert(true)
#include <toml++/toml.h>

namespace seqto::internal {

// The table of `text`, or what is wrong with it and in which line. Refused are also keys of more than 1,000 parts: the
// parser limits lists inside lists, but a.b.c... makes tables inside tables, which are freed by recursion.
toml::parse_result parse_toml(std::string_view text, std::string_view file);

}  // namespace seqto::internal
