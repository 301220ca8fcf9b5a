#include "base/file_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "seqto/error.h"

namespace seqto {

FileLock::FileLock(const std::filesystem::path& path, const Env& env) {
  std::error_code ignored;
  std::filesystem::create_directories(path.parent_path(), ignored);
  file_ = Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (file_.get() < 0)
    throw Error(Code::kInvalidInput,
                fmt::format("[lock] {}: {}; a folder that can be written was expected; choose another", path.string(),
                            std::strerror(errno)));
  bool said = false;
  while (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      throw Error(Code::kInvalidInput,
                  fmt::format("[lock] {}: {}; a file system with locks was expected; choose another", path.string(),
                              std::strerror(errno)));
    if (!said) env.log(LogLevel::kInfo, fmt::format("waiting for the process that holds {}", path.string()));
    said = true;
    env.stop_if_cancelled("lock");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace seqto
