#include "base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "seqto/error.h"

namespace seqto {
namespace {

[[noreturn]] void fail(std::string_view verb, const std::filesystem::path& path, int error,
                       std::string_view what_to_do) {
  throw Error(Code::kInvalidInput,
              fmt::format("[{}] {}: {}; {}", verb, path.string(), std::strerror(error), what_to_do));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

void write_whole(int fd, std::string_view piece, const std::filesystem::path& path) {
  while (!piece.empty()) {
    ssize_t n = ::write(fd, piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("write", path, errno, "make room or choose another folder");
    piece.remove_prefix(static_cast<size_t>(n));
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
  if (path.has_parent_path()) {
    std::error_code error;
    std::filesystem::create_directories(path.parent_path(), error);
    if (error) fail("write", path.parent_path(), error.value(), "a writable folder was expected; choose another");
  }
  std::filesystem::path temporary = path;
  temporary += fmt::format(".tmp-{}", ::getpid());
  try {
    Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (file.get() < 0) fail("write", path, errno, "a writable folder was expected; choose another");
    for (auto piece : pieces) write_whole(file.get(), piece, path);
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail("write", path, errno, "choose another name");
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
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

MappedFile::MappedFile(const std::filesystem::path& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) fail("read", path, errno, "an existing, readable file was expected; check the path");
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) fail("read", path, errno, "check the path");
  if (S_ISDIR(info.st_mode)) fail("read", path, EISDIR, "a file was expected; check the path");
  if (info.st_size == 0) return;
  void* data = ::mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) fail("read", path, errno, "a regular file was expected; check the path");
  bytes_ = {static_cast<const std::byte*>(data), static_cast<size_t>(info.st_size)};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace seqto
