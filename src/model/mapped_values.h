// Room: model. The values of a tensor that lie in a mapped file.
#pragma once

#include <memory>
#include <mutex>
#include <span>

#include "base/files.h"

namespace seqto::internal {

// Shared by all copies of one tensor.
class MappedValues {
 public:
  MappedValues(std::shared_ptr<const MappedFile> file, std::span<const std::byte> bytes)
      : file_(std::move(file)), bytes_(bytes) {}

  // A copy at an address that suits every element type, made at the first call.
  std::span<const std::byte> aligned_copy() const;
  void fetch() const { file_->fetch(bytes_); }
  // Lets the system take the pages back.
  void release() const { file_->release(bytes_); }
  void drop() const { file_->drop(bytes_); }

 private:
  std::shared_ptr<const MappedFile> file_;
  std::span<const std::byte> bytes_;
  mutable std::once_flag once_;
  mutable std::unique_ptr<std::byte[]> copy_;
};

}  // namespace seqto::internal
