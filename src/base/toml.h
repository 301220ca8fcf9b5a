// Room: base. The one door for TOML texts, which are read without exceptions.
#pragma once

#include <string_view>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

namespace seqto::internal {

// Whether a key has more than 100 parts. To be asked before parsing: the parser limits lists inside lists; a.b.c...
// makes tables inside tables without end, and it frees them by recursion.
bool has_deep_keys(std::string_view text);

}  // namespace seqto::internal
