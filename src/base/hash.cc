#include "base/hash.h"

#include <fmt/format.h>
#include <nettle/sha2.h>
#include <nettle/version.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "base/files.h"

namespace seqto {

std::string sha256_hex(std::string_view bytes) {
  sha256_ctx context;
  sha256_init(&context);
  sha256_update(&context, bytes.size(), reinterpret_cast<const uint8_t*>(bytes.data()));
  std::array<uint8_t, SHA256_DIGEST_SIZE> digest;
  // The digest is asked for in full; releases of nettle differ in whether they take its length.
#if NETTLE_VERSION_MAJOR >= 4
  sha256_digest(&context, digest.data());
#else
  sha256_digest(&context, digest.size(), digest.data());
#endif
  std::string hex;
  for (uint8_t byte : digest) hex += fmt::format("{:02x}", byte);
  return hex;
}

std::string sha256_file(const std::filesystem::path& path) {
  MappedFile file(path);
  return sha256_hex({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
}

std::string xxh3_hex(std::span<const std::byte> bytes) {
  XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string xxh3_of_pieces(const std::filesystem::path& path) {
  constexpr size_t kPiece = 4096;
  const MappedFile file(path);
  const std::span<const std::byte> all = file.bytes();
  if (all.size() <= 3 * kPiece) return xxh3_hex(all);
  std::vector<std::byte> pieces;
  for (const size_t begin : {size_t{0}, (all.size() - kPiece) / 2, all.size() - kPiece})
    std::ranges::copy(all.subspan(begin, kPiece), std::back_inserter(pieces));
  return xxh3_hex(pieces);
}

}  // namespace seqto
