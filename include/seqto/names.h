// Room: base. What a misspelt name may have meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace seqto {

// The candidate that a misspelt word most likely meant: the one of least edit distance, or one that begins with the
// word. "" where a third of the letters differ and more: such a guess helps nobody.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

// "; did you mean 'chain'?" for the end of a message; "" where nothing is near.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

}  // namespace seqto
