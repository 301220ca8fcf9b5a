// Encoded pictures to 8-bit RGB, with the pixels that Pillow gives.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace seqto::internal {

struct Image {
  int width = 0, height = 0;
  std::vector<uint8_t> rgb;  // height x width x 3
};

// A JPEG or PNG by its first bytes; grey, palette, CMYK and 16-bit pixels become RGB, alpha is dropped.
// Throws Error{kInvalidInput} that begins with `name`: not an image, truncated, damaged, or beyond 89 million pixels.
Image decode_image(std::string_view bytes, const std::string& name);

}  // namespace seqto::internal
