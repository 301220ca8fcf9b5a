// Room: runner/worker. The blobs that came over a link, kept in a folder for later connections too.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "runner/worker/blobs.h"

namespace seqto::internal {

// Several workers may share the folder: what one removes stays readable where another has found it. One thread at a
// time.
class KeptBlobs {
 public:
  // `most_bytes`: what trim() leaves, and half of the room that the file system has for it at most.
  KeptBlobs(std::filesystem::path folder, int64_t most_bytes);
  // Throws Error{kUnavailable} where there is no room, even without the blobs that nobody has used for long.
  void add(const std::string& name, std::span<const std::byte> bytes);
  // Marks it as used. Nothing where it is not there.
  std::optional<Blob> find(const std::string& name);
  // Removes the longest unused blobs above the limit, if any came since the last time.
  void trim();

 private:
  void trim_to(int64_t most_bytes);

  std::filesystem::path folder_;
  int64_t most_bytes_;
  bool grew_ = true;  // before this process, for all it knows
};

}  // namespace seqto::internal
