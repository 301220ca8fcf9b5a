// Room: base. Files: read whole, map, write so that a broken one is never seen.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace seqto {

// Throws Error{kInvalidInput} naming the path and the reason.
std::string read_file(const std::filesystem::path& path);

// Writes `<path>.tmp-<pid>`, then renames it to `path`; on failure the temporary file is removed and
// Error{kInvalidInput} thrown. Missing parent folders are made.
void write_file_atomic(const std::filesystem::path& path, std::string_view content);
// The same in pieces.
void write_file_atomic(const std::filesystem::path& path, std::span<const std::string_view> pieces);

// Makes the folder and its parents, and makes sure that a file can be made in it.
// Throws Error{kInvalidInput} otherwise.
void make_writable_folder(const std::filesystem::path& folder);

// A file mapped read-only; its bytes live as long as this object.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);  // throws Error{kInvalidInput}
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace seqto
