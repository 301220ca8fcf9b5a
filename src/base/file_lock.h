// Room: base. A lock between processes, on a file of its own.
#pragma once

#include <filesystem>
#include <string>

#include "base/descriptor.h"
#include "seqto/env.h"

namespace seqto {

// Held as long as this object; the system drops it with the process, however that ends. The file stays.
class FileLock {
 public:
  // Waits for the holder, and says once that it does. Throws Error{kInvalidInput} where the file cannot be made,
  // Error{kInterrupted} when cancelled.
  FileLock(const std::filesystem::path& path, const Env& env);

 private:
  Descriptor file_;
};

// Takes the lock of a study's open file until its descriptor is closed. Throws Error{kInvalidInput}, which names the
// process, where another run has it. A file system without locks is used without them.
void lock_study(int descriptor, const std::filesystem::path& path);

}  // namespace seqto
