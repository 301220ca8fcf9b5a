#include "base/file_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "seqto/error.h"

namespace seqto {
namespace {

// "process 1234 (seqto tune ...)"; "another run" where the system does not tell: it may be on another machine.
std::string lock_holder(int descriptor) {
  struct stat info{};
  if (::fstat(descriptor, &info) != 0) return "another run";
  const std::string place = fmt::format("{:02x}:{:02x}:{}", major(info.st_dev), minor(info.st_dev), info.st_ino);
  // "1: FLOCK  ADVISORY  WRITE 1234 00:2b:5678 0 EOF"
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, advisory, write, file;
    int pid = 0;
    words >> number >> kind >> advisory >> write >> pid >> file;
    if (kind != "FLOCK" || file != place || pid <= 0) continue;
    constexpr size_t kMost = 120;
    std::string command;
    std::getline(std::ifstream(fmt::format("/proc/{}/cmdline", pid)), command);
    std::replace(command.begin(), command.end(), '\0', ' ');
    if (command.ends_with(' ')) command.pop_back();
    if (command.size() > kMost) command.replace(kMost, std::string::npos, "...");
    return fmt::format("process {} ({})", pid, command.empty() ? "not seen from here" : command);
  }
  return "another run";
}

}  // namespace

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

void lock_study(int descriptor, const std::filesystem::path& path) {
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  throw Error(Code::kInvalidInput,
              fmt::format("[study] {} is being written by {}; one run at a time expected; wait for it or choose "
                          "another folder",
                          path.string(), lock_holder(descriptor)));
}

}  // namespace seqto
