// Room: base. Bytes as text.
#pragma once

#include <string>
#include <string_view>

namespace seqto::internal {

// As JSON asks: the shortest form of each character, and no surrogates.
bool is_utf8(std::string_view text);

// The text in lower case, of all scripts that have one; of ASCII alone where it is no UTF-8. By the system's C library.
std::string lower_case(const std::string& text);

// The text with all bytes but printable ASCII as \xE5.
std::string ascii(std::string_view text);

}  // namespace seqto::internal
