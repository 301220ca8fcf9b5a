// Also built into the server for devices by itself: nothing but the standard library and the system here.
#include "base/locked_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

namespace seqto {

namespace fs = std::filesystem;

// The folder gets its name when it is locked, so that nobody takes it for stale before.
LockedFolder::LockedFolder(const fs::path& parent, std::string_view prefix) {
  std::string made = (parent / "seqto-new-XXXXXX").string();
  if (!::mkdtemp(made.data())) return;
  lock_ = Descriptor(::open((made + "/lock").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  ::flock(lock_.get(), LOCK_EX | LOCK_NB);
  fs::path path = parent / (std::string(prefix) + std::to_string(::getpid()) + "-" + made.substr(made.size() - 6));
  if (::rename(made.c_str(), path.c_str()) == 0) {
    path_ = std::move(path);
    return;
  }
  const int error = errno;
  std::error_code ignored;
  fs::remove_all(made, ignored);
  errno = error;
}

LockedFolder::~LockedFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

void remove_stale_folders(const fs::path& parent, std::string_view prefix) {
  std::error_code error;
  // A folder may go away meanwhile: what is left is found next time.
  for (auto at = fs::directory_iterator(parent, error), end = fs::directory_iterator(); !error && at != end;
       at.increment(error)) {
    const fs::directory_entry& entry = *at;
    if (!entry.path().filename().string().starts_with(prefix)) continue;
    struct stat info{};
    Descriptor lock(::open((entry.path() / "lock").c_str(), O_RDONLY | O_CLOEXEC));
    if (lock.get() < 0) continue;  // somebody else's, by a name like ours
    const bool locked = ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0;
    const bool ours = ::lstat(entry.path().c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid();
    std::error_code ignored;
    if (ours && !locked) fs::remove_all(entry.path(), ignored);
  }
}

}  // namespace seqto
