// Encoded pictures to 8-bit RGB, with the pixels that Pillow gives.
#include "data/decode_image.h"

#include <fmt/format.h>
#include <png.h>
#include <turbojpeg.h>

#include <csetjmp>
#include <cstring>
#include <memory>

#include "seqto/error.h"

namespace seqto::internal {
namespace {

[[noreturn]] void fail(const std::string& name, std::string_view why) {
  throw Error(Code::kInvalidInput,
              fmt::format("[data] {}: {}; a readable JPEG or PNG expected; replace or remove the file", name, why));
}

// A few bytes of header can ask for gigabytes. Pillow begins to warn at this size.
void check_size(int64_t width, int64_t height, const std::string& name) {
  if (width < 1 || height < 1) fail(name, "it cannot be decoded: its header tells no size");
  if (width * height > 89'478'485) fail(name, fmt::format("{}x{} is beyond 89 million pixels", width, height));
}

// In place. Adobe's programs store CMYK inverted, and so does everyone since; 255 in the file is no ink.
void cmyk_to_rgb(std::vector<uint8_t>& values) {
  const size_t pixels = values.size() / 4;
  for (size_t pixel = 0; pixel < pixels; ++pixel) {
    const int light = values[4 * pixel + 3];
    for (size_t c = 0; c < 3; ++c) {
      const int product = (255 - values[4 * pixel + c]) * light + 128;
      values[3 * pixel + c] = static_cast<uint8_t>(light - ((product + (product >> 8)) >> 8));
    }
  }
  values.resize(pixels * 3);
}

Image decode_jpeg(std::string_view bytes, const std::string& name) {
  const std::unique_ptr<void, int (*)(void*)> decoder(tjInitDecompress(), tjDestroy);
  if (!decoder) fail(name, "the JPEG decoder did not start");
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  Image image;
  int subsampling = 0, colours = 0;
  if (tjDecompressHeader3(decoder.get(), data, bytes.size(), &image.width, &image.height, &subsampling, &colours) !=
          0 &&
      tjGetErrorCode(decoder.get()) == TJERR_FATAL) {
    fail(name, tjGetErrorStr2(decoder.get()));
  }
  check_size(image.width, image.height, name);

  const bool cmyk = colours == TJCS_CMYK || colours == TJCS_YCCK;
  const size_t pixels = static_cast<size_t>(image.width) * image.height;
  image.rgb.resize(pixels * (cmyk ? 4 : 3));
  // No flags: the exact integer DCT and smooth chroma upsampling, as Pillow's.
  const int failed = tjDecompress2(decoder.get(), data, bytes.size(), image.rgb.data(), image.width, 0, image.height,
                                   cmyk ? TJPF_CMYK : TJPF_RGB, 0);
  if (failed) {
    // Harmless oddities are warnings too; a file that ends early is not harmless: the rest would be grey.
    const std::string why = tjGetErrorStr2(decoder.get());
    if (tjGetErrorCode(decoder.get()) == TJERR_FATAL || why.find("Premature end") != std::string::npos) fail(name, why);
  }
  if (cmyk) cmyk_to_rgb(image.rgb);
  return image;
}

// What libpng's callbacks share with decode_png().
struct PngSource {
  std::string_view bytes;
  char error[200] = "";
};

extern "C" {
static void png_take(png_structp png, png_bytep out, size_t count) {
  auto* source = static_cast<PngSource*>(png_get_io_ptr(png));
  if (source->bytes.size() < count) png_error(png, "the file ends early");
  std::memcpy(out, source->bytes.data(), count);
  source->bytes.remove_prefix(count);
}
static void png_keep_error(png_structp png, png_const_charp message) {
  auto* source = static_cast<PngSource*>(png_get_error_ptr(png));
  std::strncpy(source->error, message, sizeof(source->error) - 1);
  png_longjmp(png, 1);
}
static void png_no_warning(png_structp, png_const_charp) {}
}

// libpng leaves by longjmp: nothing with a destructor may live in these two functions.
bool read_png_header(png_structp png, png_infop info) {
  if (setjmp(png_jmpbuf(png))) return false;
  png_read_info(png, info);
  const int colour = png_get_color_type(png, info);
  if (colour == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (colour == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png);
  if (!(colour & PNG_COLOR_MASK_COLOR)) png_set_gray_to_rgb(png);
  png_set_strip_16(png);
  png_set_strip_alpha(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  return true;
}
bool read_png_rows(png_structp png, png_bytep* rows) {
  if (setjmp(png_jmpbuf(png))) return false;
  png_read_image(png, rows);
  return true;
}

struct PngReader {
  png_structp png = nullptr;
  png_infop info = nullptr;
  explicit PngReader(PngSource* source)
      : png(png_create_read_struct(PNG_LIBPNG_VER_STRING, source, png_keep_error, png_no_warning)) {
    if (png) info = png_create_info_struct(png);
    if (info) png_set_read_fn(png, source, png_take);
  }
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
};

Image decode_png(std::string_view bytes, const std::string& name) {
  PngSource source{.bytes = bytes};
  PngReader reader(&source);
  if (!reader.info) fail(name, "the PNG decoder did not start");
  if (!read_png_header(reader.png, reader.info)) fail(name, source.error);

  Image image;
  image.width = static_cast<int>(png_get_image_width(reader.png, reader.info));
  image.height = static_cast<int>(png_get_image_height(reader.png, reader.info));
  check_size(image.width, image.height, name);
  const size_t stride = static_cast<size_t>(image.width) * 3;
  if (png_get_rowbytes(reader.png, reader.info) != stride) fail(name, "unusual pixel format found");
  image.rgb.resize(stride * image.height);
  std::vector<png_bytep> rows(image.height);
  for (size_t y = 0; y < rows.size(); ++y) rows[y] = image.rgb.data() + y * stride;
  if (!read_png_rows(reader.png, rows.data())) fail(name, source.error);
  return image;
}

}  // namespace

Image decode_image(std::string_view bytes, const std::string& name) {
  if (bytes.starts_with("\xff\xd8")) return decode_jpeg(bytes, name);
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) return decode_png(bytes, name);
  fail(name, bytes.empty() ? "empty file found" : "neither JPEG nor PNG data found");
}

}  // namespace seqto::internal
