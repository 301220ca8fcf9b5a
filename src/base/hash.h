// Room: base. Hashes that name things: SHA-256.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace seqto {

std::string sha256_hex(std::string_view bytes);              // 64 lower-case hex digits
std::string sha256_file(const std::filesystem::path& path);  // throws Error{kInvalidInput} as read_file()

}  // namespace seqto
