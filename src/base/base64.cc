#include "base/base64.h"

#include <nettle/base64.h>

namespace seqto {

std::string base64(std::span<const std::byte> bytes) {
  std::string text(BASE64_ENCODE_RAW_LENGTH(bytes.size()), '\0');
  base64_encode_raw(text.data(), bytes.size(), reinterpret_cast<const uint8_t*>(bytes.data()));
  return text;
}

std::optional<std::vector<std::byte>> from_base64(std::string_view text) {
  base64_decode_ctx context;
  base64_decode_init(&context);
  std::vector<std::byte> bytes(BASE64_DECODE_LENGTH(text.size()));
  size_t size = bytes.size();
  if (!base64_decode_update(&context, &size, reinterpret_cast<uint8_t*>(bytes.data()), text.size(), text.data()) ||
      !base64_decode_final(&context))
    return std::nullopt;
  bytes.resize(size);
  return bytes;
}

}  // namespace seqto
