// Room: base. Hashes that name things: SHA-256, and XXH3 where nobody forges contents and speed counts.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace seqto {

std::string sha256_hex(std::string_view bytes);              // 64 lower-case hex digits
std::string sha256_file(const std::filesystem::path& path);  // throws Error{kInvalidInput} as read_file()

// 128 bits of XXH3 as 32 lower-case hex digits; about as fast as memory.
std::string xxh3_hex(std::span<const std::byte> bytes);
// Of 4 KiB each at the file's begin, middle and end: whether it was written anew, for folders that are too large to be
// read. Throws Error{kInvalidInput} as read_file().
std::string xxh3_of_pieces(const std::filesystem::path& path);

}  // namespace seqto
