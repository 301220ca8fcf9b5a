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

// Who has locked the open file, as "process 1234 (seqto tune ...)"; "another run" where the system does not tell: it
// may be on another machine.
std::string lock_holder(int descriptor);

}  // namespace seqto
