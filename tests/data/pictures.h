// What the tests of images share: the picture of make_golden.py, short digests, a folder that cleans up.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "data/decode_image.h"
#include "seqto/error.h"

namespace seqto::internal {

inline Image picture(int width, int height) {
  Image image{width, height, {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < 3; ++c) image.rgb.push_back(static_cast<uint8_t>(x * 37 + y * 91 + c * 53 + x * y * 7));
    }
  }
  return image;
}

inline std::string digest(const Image& image) {
  return sha256_hex({reinterpret_cast<const char*>(image.rgb.data()), image.rgb.size()}).substr(0, 16);
}

inline std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(SEQTO_SOURCE_DIR) / "tests/data/golden" / name;
}

struct Folder {
  std::filesystem::path path;
  explicit Folder(std::string_view name)
      : path(std::filesystem::temp_directory_path() / (std::string(name) + "-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string write(const std::string& name, std::string_view text) const {
    std::ofstream(path / name, std::ios::binary) << text;
    return (path / name).string();
  }
  void add(const std::string& golden_name, const std::string& as) const {
    std::filesystem::copy_file(golden(golden_name), path / as);
  }
};

// The words of the seqto::Error that `body` throws; empty when it throws none.
template <class Body>
std::string error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.code() == Code::kInvalidInput ? error.what() : std::string("another code: ") + error.what();
  }
  return "";
}

// For EXPECT_PRED2: the words contain the part.
inline bool says(const std::string& words, std::string_view part) { return words.find(part) != std::string::npos; }

}  // namespace seqto::internal
