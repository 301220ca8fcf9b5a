// Room: base. Files: read whole, map, write so that a broken one is never seen.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/locked_folder.h"

namespace seqto {

// Throws Error{kInvalidInput} naming the path and the reason.
std::string read_file(const std::filesystem::path& path);

// $TMPDIR, or /tmp where that is no folder.
std::filesystem::path temporary_parent();

// Writes under a temporary name, then renames it to `path`; on failure the temporary file is removed and
// Error{kInvalidInput} thrown. Missing parent folders are made. What a killed process left behind is removed.
void write_file_atomic(const std::filesystem::path& path, std::string_view content);
// The same in pieces.
void write_file_atomic(const std::filesystem::path& path, std::span<const std::string_view> pieces);

// A file being written: nothing is seen at `path` before commit(). Without it the temporary file is removed.
class PendingFile {
 public:
  explicit PendingFile(std::filesystem::path path);
  ~PendingFile();
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;
  // Small pieces are gathered: a call of the system may take long, on a network's disk.
  void write(std::string_view piece);
  void commit();

 private:
  void write_now(std::string_view piece);

  std::filesystem::path path_, temporary_;
  std::string gathered_;
  int fd_ = -1;
};

// Makes the folder and its parents, and makes sure that a file can be made in it.
// Throws Error{kInvalidInput} otherwise.
void make_writable_folder(const std::filesystem::path& folder);

// Calls `go_on` with each regular file of the folder, at any depth and in no order, until it answers false. What is
// hidden, and folders that this user may not read, are left out. Throws std::filesystem::filesystem_error.
void for_each_file(const std::filesystem::path& folder, const std::function<bool(const std::filesystem::path&)>& go_on);

// A folder of one's own below $TMPDIR, gone with this object; what was mapped from it stays readable. The first of a
// process removes those of processes that were killed. Throws Error{kInvalidInput} where none can be made.
class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

 private:
  LockedFolder owned_;

 public:
  std::filesystem::path path;
};

// A file mapped read-only; its bytes live as long as this object.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);  // throws Error{kInvalidInput}
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::span<const std::byte> bytes() const { return bytes_; }
  // Has the system read `part` now, and no more than single pages where some of it is missing later: the megabytes that
  // it would read around these belong to parts that were dropped, or will be by the time they are needed.
  void fetch(std::span<const std::byte> part) const;
  // Gives the memory of `part` back to the system; it is read from the file again when it is needed.
  void release(std::span<const std::byte> part) const;
  // The same, and out of the system's cache of the file: for what is not read again.
  void drop(std::span<const std::byte> part) const;

 private:
  std::filesystem::path path_;  // no descriptor: a model may have a file for each of its weights
  std::span<const std::byte> bytes_;
};

}  // namespace seqto
