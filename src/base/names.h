// Room: base. What a misspelt name may have meant.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace seqto::internal {

// Insertions, deletions and replacements of one character that lead from one to the other.
size_t edit_distance(std::string_view a, std::string_view b);

// The `count` known names that are nearest to `text`, nearest first, each once.
std::vector<std::string> nearest_names(std::string_view text, std::span<const std::string> known, size_t count = 3);

}  // namespace seqto::internal
