// Room: model. Protobuf's variable-length integers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace seqto::internal {

inline void put_varint(std::string& out, uint64_t value) {
  for (; value >= 128; value >>= 7) out += static_cast<char>(value | 128);
  out += static_cast<char>(value);
}

inline size_t varint_size(uint64_t value) {
  size_t n = 1;
  for (; value >= 128; value >>= 7) ++n;
  return n;
}

// Takes one from the front; nothing where there is none.
inline std::optional<uint64_t> get_varint(std::string_view& from) {
  uint64_t value = 0;
  for (size_t i = 0; i < from.size() && i < 10; ++i) {
    value |= static_cast<uint64_t>(from[i] & 127) << (7 * i);
    if (!(from[i] & 128)) {
      from.remove_prefix(i + 1);
      return value;
    }
  }
  return {};
}

}  // namespace seqto::internal
