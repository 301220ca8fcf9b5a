// Room: base. Folders for a process's temporary files that the next process removes where their own was killed.
#pragma once

#include <filesystem>
#include <string_view>
#include <utility>

#include "base/descriptor.h"

namespace seqto {

// A new folder, locked by this process, and those that it forks, until the last of them ends, however it ends. Removed
// with this object.
class LockedFolder {
 public:
  // As `parent`/`prefix`<pid>-XXXXXX; where none can be made there is no path, and errno says why.
  LockedFolder(const std::filesystem::path& parent, std::string_view prefix);
  ~LockedFolder();
  LockedFolder(LockedFolder&& other) noexcept : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}
  LockedFolder& operator=(LockedFolder&&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  Descriptor lock_;
};

// Those of this user below `parent` whose names begin with `prefix` and whose lock nobody holds any more. A folder
// without a lock is somebody else's.
void remove_stale_folders(const std::filesystem::path& parent, std::string_view prefix);

}  // namespace seqto
