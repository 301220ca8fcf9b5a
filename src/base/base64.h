// Room: base. Base64, the plain alphabet with padding (RFC 4648).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace seqto {

std::string base64(std::span<const std::byte> bytes);
std::optional<std::vector<std::byte>> from_base64(std::string_view text);  // nothing where it is not base64

}  // namespace seqto
