// ZIP archives as numpy writes them: stored or deflated members, ZIP64.
#include "data/zip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>

#include "seqto/error.h"

namespace seqto::internal {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50, kCentralHeader = 0x02014b50, kEnd = 0x06054b50;
constexpr uint32_t kEnd64 = 0x06064b50, kEnd64Locator = 0x07064b50;
constexpr uint32_t kIn64 = 0xffffffff;  // the value stands in the ZIP64 field
constexpr uint16_t kZip64Field = 1;

[[noreturn]] void damaged(const std::string& file, std::string_view what) {
  throw Error(Code::kInvalidInput,
              fmt::format("[data] {}: {}; a whole .npz archive expected; write the file again", file, what));
}

// Little-endian fields out of bytes that may end anywhere.
class Fields {
 public:
  Fields(std::span<const std::byte> bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  // A view from `offset`, which comes from the file and may be nonsense.
  Fields from(uint64_t offset) const {
    if (offset > bytes_.size()) damaged(file_, "a position outside the file found");
    return {bytes_.subspan(offset), file_};
  }
  std::span<const std::byte> take(uint64_t count) {
    if (count > bytes_.size()) damaged(file_, "the end of the file found too early");
    const auto taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }
  uint64_t number(int count) {
    uint64_t value = 0;
    int shift = 0;
    for (const std::byte b : take(count)) {
      value |= std::to_integer<uint64_t>(b) << shift;
      shift += 8;
    }
    return value;
  }
  std::string text(uint64_t count) {
    const auto bytes = take(count);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  size_t left() const { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
  const std::string& file_;
};

// The end record is last, but for a comment of up to 64 KB.
uint64_t find_end(std::span<const std::byte> archive, const std::string& file) {
  constexpr size_t kSize = 22;
  for (size_t back = kSize; back <= archive.size() && back <= kSize + 0xffff; ++back) {
    if (Fields(archive, file).from(archive.size() - back).number(4) == kEnd) return archive.size() - back;
  }
  damaged(file, "no ZIP directory found");
}

// Sizes that did not fit stand in the extra fields, in this order, only those that did not.
void read_zip64_field(Fields extra, ZipMember& member) {
  while (extra.left() >= 4) {
    const uint64_t id = extra.number(2);
    const uint64_t size = extra.number(2);
    if (id != kZip64Field) {
      extra.take(size);
      continue;
    }
    for (uint64_t* value : {&member.bytes, &member.packed_bytes, &member.header_at}) {
      if (*value == kIn64) *value = extra.number(8);
    }
    return;
  }
}

std::span<const std::byte> inflate_member(std::span<const std::byte> packed, const ZipMember& member,
                                          const std::string& where, std::vector<std::byte>& storage) {
  // Deflate never does better than 1032:1; a larger claim is damage, not a reason to allocate.
  if (member.bytes / 1040 > packed.size()) damaged(where, "an impossible size found");
  storage.resize(member.bytes);
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) damaged(where, "zlib did not start");
  // zlib counts in 32 bits.
  constexpr size_t kPiece = size_t{1} << 30;
  size_t in = 0, out = 0;
  int state = Z_OK;
  while (state == Z_OK) {
    const size_t in_piece = std::min(kPiece, packed.size() - in), out_piece = std::min(kPiece, storage.size() - out);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data() + in));
    stream.next_out = reinterpret_cast<Bytef*>(storage.data() + out);
    stream.avail_in = static_cast<uInt>(in_piece);
    stream.avail_out = static_cast<uInt>(out_piece);
    state = inflate(&stream, Z_NO_FLUSH);
    in += in_piece - stream.avail_in;
    out += out_piece - stream.avail_out;
  }
  inflateEnd(&stream);
  if (state != Z_STREAM_END || out != storage.size()) damaged(where, "damaged compressed data found");
  return storage;
}

uint32_t checksum(std::span<const std::byte> bytes, uint32_t start = 0) {
  if (bytes.empty()) return start;  // zlib takes a null pointer as a request for the first value
  return static_cast<uint32_t>(crc32_z(start, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

void append(std::string& out, uint64_t value, int count) {
  for (int i = 0; i < count; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

// The part that local and central headers share: version, flags, method, date, CRC, sizes, lengths of name and extra.
void append_common(std::string& out, const ZipMember& member, bool zip64, size_t extra) {
  constexpr uint64_t kDate1980 = 0x00210000;
  constexpr uint64_t kUtf8Name = 1 << 11;
  const bool ascii = std::ranges::all_of(member.name, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  append(out, zip64 ? 45 : 20, 2);
  append(out, ascii ? 0 : kUtf8Name, 2);
  append(out, 0, 2);
  append(out, kDate1980, 4);
  append(out, member.crc, 4);
  append(out, zip64 ? kIn64 : member.bytes, 4);
  append(out, zip64 ? kIn64 : member.bytes, 4);
  append(out, member.name.size(), 2);
  append(out, extra, 2);
}

std::string local_header(const ZipMember& member, bool zip64) {
  std::string out;
  append(out, kLocalHeader, 4);
  append_common(out, member, zip64, zip64 ? 20 : 0);
  out += member.name;
  if (zip64) {
    append(out, kZip64Field, 2);
    append(out, 16, 2);
    append(out, member.bytes, 8);
    append(out, member.bytes, 8);
  }
  return out;
}

void append_central(std::string& out, const ZipMember& member, bool zip64) {
  append(out, kCentralHeader, 4);
  append(out, zip64 ? 45 : 20, 2);
  append_common(out, member, zip64, zip64 ? 28 : 0);
  append(out, 0, 6);  // no comment, first disk, binary
  append(out, 0, 4);
  append(out, zip64 ? kIn64 : member.header_at, 4);
  out += member.name;
  if (zip64) {
    append(out, kZip64Field, 2);
    append(out, 24, 2);
    append(out, member.bytes, 8);
    append(out, member.bytes, 8);
    append(out, member.header_at, 8);
  }
}

void append_end(std::string& out, uint64_t count, uint64_t central_at, bool zip64) {
  const uint64_t central_bytes = out.size();
  if (zip64) {
    append(out, kEnd64, 4);
    append(out, 44, 8);  // bytes of this record that follow
    append(out, 45, 2);
    append(out, 45, 2);
    append(out, 0, 8);  // first disk, twice
    append(out, count, 8);
    append(out, count, 8);
    append(out, central_bytes, 8);
    append(out, central_at, 8);
    append(out, kEnd64Locator, 4);
    append(out, 0, 4);
    append(out, central_at + central_bytes, 8);
    append(out, 1, 4);
  }
  append(out, kEnd, 4);
  append(out, 0, 4);
  append(out, zip64 ? 0xffff : count, 2);
  append(out, zip64 ? 0xffff : count, 2);
  append(out, zip64 ? kIn64 : central_bytes, 4);
  append(out, zip64 ? kIn64 : central_at, 4);
  append(out, 0, 2);
}

}  // namespace

std::vector<ZipMember> list_zip(std::span<const std::byte> archive, const std::string& file) {
  const Fields all(archive, file);
  const uint64_t end_at = find_end(archive, file);
  Fields end = all.from(end_at);
  end.take(10);
  uint64_t count = end.number(2);
  end.take(4);
  uint64_t central_at = end.number(4);
  if (constexpr uint64_t kLocatorSize = 20; end_at >= kLocatorSize) {
    Fields locator = all.from(end_at - kLocatorSize);
    if (locator.number(4) == kEnd64Locator) {
      locator.take(4);
      Fields end64 = all.from(locator.number(8));
      if (end64.number(4) != kEnd64) damaged(file, "a damaged ZIP64 directory found");
      end64.take(28);
      count = end64.number(8);
      end64.take(8);
      central_at = end64.number(8);
    }
  }
  std::vector<ZipMember> members;
  Fields central = all.from(central_at);
  for (uint64_t i = 0; i < count; ++i) {
    if (central.number(4) != kCentralHeader) damaged(file, "a damaged ZIP directory found");
    ZipMember member;
    central.take(4);
    member.flags = static_cast<uint16_t>(central.number(2));
    member.method = static_cast<uint16_t>(central.number(2));
    central.take(4);
    member.crc = static_cast<uint32_t>(central.number(4));
    member.packed_bytes = central.number(4);
    member.bytes = central.number(4);
    const uint64_t name = central.number(2), extra = central.number(2), comment = central.number(2);
    central.take(8);
    member.header_at = central.number(4);
    member.name = central.text(name);
    read_zip64_field(Fields(central.take(extra), file), member);
    central.take(comment);
    members.push_back(std::move(member));
  }
  return members;
}

std::span<const std::byte> read_member(std::span<const std::byte> archive, const ZipMember& member,
                                       const std::string& file, std::vector<std::byte>& storage) {
  const std::string where = fmt::format("{}, {}", file, member.name);
  Fields local = Fields(archive, where).from(member.header_at);
  if (local.number(4) != kLocalHeader) damaged(where, "a damaged member found");
  if (member.flags & 1) damaged(where, "an encrypted member found");
  local.take(22);
  const uint64_t name = local.number(2), extra = local.number(2);
  local.take(name + extra);
  const auto packed = local.take(member.packed_bytes);

  std::span<const std::byte> content = packed;
  if (member.method == Z_DEFLATED) {
    content = inflate_member(packed, member, where, storage);
  } else if (member.method != 0) {
    damaged(where, fmt::format("compression method {} found, stored or deflate expected", member.method));
  } else if (member.packed_bytes != member.bytes) {
    damaged(where, "two sizes found for one member");
  }
  if (checksum(content) != member.crc) damaged(where, "a wrong checksum found");
  return content;
}

std::vector<std::string_view> write_zip(std::span<const ZipSource> sources, std::vector<std::string>& storage,
                                        bool always_zip64) {
  std::vector<ZipMember> members;
  uint64_t total = 0;
  for (const ZipSource& source : sources) {
    const uint32_t head = checksum(std::as_bytes(std::span(source.head)));
    ZipMember member{.name = source.name, .crc = checksum(std::as_bytes(std::span(source.body)), head)};
    member.bytes = source.head.size() + source.body.size();
    total += member.bytes + 2 * (100 + member.name.size());
    members.push_back(std::move(member));
  }
  const bool zip64 = always_zip64 || total >= kIn64 || sources.size() >= 0xffff;

  uint64_t at = 0;
  std::string central;
  storage.clear();
  storage.reserve(sources.size() + 1);  // the views below must stay valid
  std::vector<std::string_view> pieces;
  for (size_t i = 0; i < sources.size(); ++i) {
    members[i].header_at = at;
    storage.push_back(local_header(members[i], zip64));
    pieces.insert(pieces.end(), {storage.back(), sources[i].head, sources[i].body});
    append_central(central, members[i], zip64);
    at += storage.back().size() + members[i].bytes;
  }
  append_end(central, members.size(), at, zip64);
  storage.push_back(std::move(central));
  pieces.push_back(storage.back());
  return pieces;
}

}  // namespace seqto::internal
