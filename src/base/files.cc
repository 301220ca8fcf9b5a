#include "base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/descriptor.h"
#include "seqto/error.h"

namespace seqto {
namespace {

constexpr std::string_view kFolders = "seqto-tmp-";

[[noreturn]] void fail(std::string_view verb, const std::filesystem::path& path, int error,
                       std::string_view what_to_do) {
  throw Error(Code::kInvalidInput,
              fmt::format("[{}] {}: {}; {}", verb, path.string(), std::strerror(error), what_to_do));
}

constexpr std::string_view kTemporary = ".tmp-";

// True when the process whose number stands behind `prefix` in the name is gone from this machine.
bool writer_is_gone(const std::string& name, size_t prefix) {
  int pid = 0;
  auto [end, error] = std::from_chars(name.data() + prefix, name.data() + name.size(), pid);
  return error == std::errc() && pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH;
}

// Temporary files of `path` whose writer was killed: those that nobody holds a lock on. A file so young that its writer
// may not have come to locking it stays while that writer may be alive.
void remove_stale_temporaries(const std::filesystem::path& path) {
  constexpr time_t kYoungSeconds = 5;
  std::string prefix = path.filename().string() + std::string(kTemporary);
  std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    Descriptor file(::open(entry.path().c_str(), O_WRONLY | O_CLOEXEC));
    struct stat info{};
    bool dead = file.get() >= 0 && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0 && ::fstat(file.get(), &info) == 0 &&
                (writer_is_gone(name, prefix.size()) || ::time(nullptr) - info.st_ctime > kYoungSeconds);
    if (dead) ::unlink(entry.path().c_str());
  }
}

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  MappedFile file(path);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

void write_file_atomic(const std::filesystem::path& path, std::string_view content) {
  std::array<std::string_view, 1> pieces{content};
  write_file_atomic(path, pieces);
}

void write_file_atomic(const std::filesystem::path& path, std::span<const std::string_view> pieces) {
  PendingFile file(path);
  for (auto piece : pieces) file.write(piece);
  file.commit();
}

PendingFile::PendingFile(std::filesystem::path path) : path_(std::move(path)) {
  // A device as /dev/null would be replaced by a file.
  struct stat info{};
  if (::stat(path_.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode))
    fail("write", path_, EINVAL, "a regular file was expected there; choose another name");
  if (path_.has_parent_path()) {
    std::error_code error;
    std::filesystem::create_directories(path_.parent_path(), error);
    if (error) fail("write", path_.parent_path(), error.value(), "a writable folder was expected; choose another");
  }
  remove_stale_temporaries(path_);
  // Several threads may write the same file.
  static std::atomic<unsigned> serial{0};
  temporary_ = path_;
  temporary_ += fmt::format("{}{}-{}", kTemporary, ::getpid(), serial++);
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) fail("write", path_, errno, "a writable folder was expected; choose another");
  // The lock says that the writer lives; the system drops it with the process, however that ends.
  ::flock(fd_, LOCK_EX | LOCK_NB);
}

PendingFile::~PendingFile() {
  if (fd_ < 0) return;
  ::unlink(temporary_.c_str());
  ::close(fd_);
}

void PendingFile::write(std::string_view piece) {
  constexpr size_t kGathered = 1 << 16;
  if (gathered_.size() + piece.size() > kGathered) {
    write_now(gathered_);
    gathered_.clear();
  }
  if (piece.size() > kGathered) write_now(piece);
  else gathered_ += piece;
}

void PendingFile::write_now(std::string_view piece) {
  while (!piece.empty()) {
    ssize_t n = ::write(fd_, piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("write", path_, errno, "make room or choose another folder");
    piece.remove_prefix(static_cast<size_t>(n));
  }
}

void PendingFile::commit() {
  write_now(gathered_);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("write", path_, errno, "choose another name");
  ::close(std::exchange(fd_, -1));
}

void for_each_file(const std::filesystem::path& folder,
                   const std::function<bool(const std::filesystem::path&)>& go_on) {
  namespace fs = std::filesystem;
  fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied);
  for (; at != fs::recursive_directory_iterator(); ++at) {
    if (at->path().filename().string().starts_with('.')) at.disable_recursion_pending();
    else if (at->is_regular_file() && !go_on(at->path())) return;
  }
}

void make_writable_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail("write", folder, error.value(), "a folder that can be written was expected; choose another");
  std::filesystem::path probe = folder / fmt::format(".probe-{}", ::getpid());
  Descriptor file(::open(probe.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  if (file.get() < 0) fail("write", folder, errno, "a folder that can be written was expected; choose another");
  ::unlink(probe.c_str());
}

std::filesystem::path temporary_parent() {
  std::error_code error;
  std::filesystem::path parent = std::filesystem::temp_directory_path(error);
  return error ? "/tmp" : parent;
}

TemporaryFolder::TemporaryFolder()
    : owned_(temporary_parent(), kFolders), path(owned_.path() / owned_.path().filename()) {
  std::error_code error(errno, std::generic_category());
  if (owned_.path().empty() || !std::filesystem::create_directory(path, error))
    fail("write", temporary_parent(), error.value(), "a writable folder was expected; set TMPDIR to one");
  [[maybe_unused]] static const bool swept = (remove_stale_folders(temporary_parent(), kFolders), true);
}

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) fail("read", path, errno, "an existing, readable file was expected; check the path");
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) fail("read", path, errno, "check the path");
  if (S_ISDIR(info.st_mode)) fail("read", path, EISDIR, "a file was expected; check the path");
  if (!S_ISREG(info.st_mode)) fail("read", path, ESPIPE, "a regular file was expected; write the content to one");
  if (info.st_size == 0) return;
  void* data = ::mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) fail("read", path, errno, "a regular file was expected; check the path");
  bytes_ = {static_cast<const std::byte*>(data), static_cast<size_t>(info.st_size)};
}

namespace {

uintptr_t page_size() {
  static const auto kSize = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  return kSize;
}

// On all pages of which a part has bytes.
void advise(std::span<const std::byte> part, int advice) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(part.data()) / page_size() * page_size();
  ::madvise(reinterpret_cast<void*>(begin), reinterpret_cast<uintptr_t>(part.data() + part.size()) - begin, advice);
}

}  // namespace

// Only advice: where it is not taken the pages are read as they are needed.
void MappedFile::fetch(std::span<const std::byte> part) const {
  advise(part, MADV_RANDOM);
  advise(part, MADV_WILLNEED);
}

void MappedFile::release(std::span<const std::byte> part) const {
  // Whole pages only: the ends may hold the neighbours' bytes.
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(part.data()) + page_size() - 1) / page_size() * page_size();
  const uintptr_t end = reinterpret_cast<uintptr_t>(part.data() + part.size()) / page_size() * page_size();
  // Only advice: where it is not taken the pages just stay.
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

void MappedFile::drop(std::span<const std::byte> part) const {
  release(part);
  advise(part, MADV_NORMAL);
  const Descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() >= 0 && !part.empty())
    ::posix_fadvise(file.get(), part.data() - bytes_.data(), std::ssize(part), POSIX_FADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace seqto
