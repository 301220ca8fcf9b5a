// Room: base. The one door for TOML texts, which are read without exceptions.
#pragma once

#include <string_view>

#define TOML_EXCEPTIONS 0
// One of its assertions is about what is in the file, as "[=]", which its parser refuses by itself.
#define TOML_ASSERT(expression) static_assert(true)
#include <toml++/toml.h>

namespace seqto::internal {

// What is found in the text that the parser does not refuse by itself, "" where it is fit to be parsed. Keys of more
// than 100 parts: the parser limits lists inside lists, but a.b.c... makes tables inside tables, freed by recursion.
// Letters outside ASCII where TOML has none, as in keys without quotes, where its behaviour is undefined. Quotes and
// equals signs in the middle of a value, as in 1="2", after which nobody knows where texts end.
std::string_view unfit_for_parser(std::string_view text);

}  // namespace seqto::internal
