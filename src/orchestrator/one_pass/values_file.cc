#include "orchestrator/one_pass/values_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

#include "seqto/error.h"

namespace seqto::internal {
namespace {

[[noreturn]] void fail(const char* what, const std::string& where) {
  throw Error(Code::kInvalidInput,
              fmt::format("[one-in] values cannot be {} a temporary file{}: {}; room for what candidates compute was "
                          "expected; set TMPDIR to a folder with more room",
                          what, where, std::strerror(errno)));
}

}  // namespace

ValuesFile::ValuesFile(const std::filesystem::path& path)
    : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) {
  if (fd_ < 0) fail("put into", fmt::format(" '{}'", path.string()));
  ::unlink(path.c_str());  // gone with the descriptor, however the process ends
}

ValuesFile::~ValuesFile() {
  if (fd_ >= 0) ::close(fd_);
}

ValuesFile::ValuesFile(ValuesFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), places_(std::move(other.places_)), end_(other.end_) {}

ValuesFile& ValuesFile::operator=(ValuesFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(places_, other.places_);
  std::swap(end_, other.end_);
  return *this;
}

void ValuesFile::put(size_t owner, size_t sample, const Tensor& tensor) {
  std::span<const std::byte> bytes = tensor.bytes();
  [[maybe_unused]] const bool is_new =
      places_.emplace(std::pair(owner, sample), Place{tensor.type(), tensor.dims(), end_, std::ssize(bytes)}).second;
  assert(is_new);
  int64_t offset = end_;
  end_ += std::ssize(bytes);
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail("put into", {});
    bytes = bytes.subspan(static_cast<size_t>(written));
    offset += written;
  }
}

Tensor ValuesFile::get(size_t owner, size_t sample) const {
  const Place& place = places_.at({owner, sample});
  const auto size = static_cast<size_t>(place.bytes);
  const std::shared_ptr<std::byte[]> values(new std::byte[size]);
  std::span<std::byte> bytes(values.get(), size);
  int64_t offset = place.offset;
  while (!bytes.empty()) {
    const ssize_t got = ::pread(fd_, bytes.data(), bytes.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail("read from", {});
    bytes = bytes.subspan(static_cast<size_t>(got));
    offset += got;
  }
  return Tensor(place.type, place.dims, values, {values.get(), size});
}

}  // namespace seqto::internal
