// ZIP archives as numpy writes them: stored or deflated members, ZIP64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace seqto::internal {

struct ZipMember {
  std::string name;
  uint16_t method = 0, flags = 0;
  uint32_t crc = 0;
  uint64_t packed_bytes = 0, bytes = 0, header_at = 0;
};

// The central directory. Throws Error{kInvalidInput} that begins with `file`: no archive, or damaged.
std::vector<ZipMember> list_zip(std::span<const std::byte> archive, const std::string& file);

// The member's bytes, checked against its CRC. They lie in the archive itself where stored, else in `storage`.
std::span<const std::byte> read_member(std::span<const std::byte> archive, const ZipMember& member,
                                       const std::string& file, std::vector<std::byte>& storage);

struct ZipSource {
  std::string name, head;  // the member is head, then body
  std::string_view body;
};
// The archive, members stored, dated 1980 so that equal content gives equal bytes. ZIP64 only where sizes ask for it,
// or when `always_zip64`. The pieces point into `sources` and into `storage`.
std::vector<std::string_view> write_zip(std::span<const ZipSource> sources, std::vector<std::string>& storage,
                                        bool always_zip64 = false);

}  // namespace seqto::internal
