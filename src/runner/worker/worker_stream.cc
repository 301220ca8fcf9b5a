#include "runner/worker/worker_stream.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "runner/worker/worker_protocol.h"

namespace seqto::internal {

bool LineReader::fill() {
  char piece[65536];
  ssize_t n = 0;
  do n = ::read(fd_, piece, sizeof piece);
  while (n < 0 && errno == EINTR);
  if (n > 0) buffer_.append(piece, static_cast<size_t>(n));
  return n > 0;
}

bool LineReader::next(std::string& line) {
  for (size_t searched = 0;;) {
    if (size_t end = buffer_.find('\n', searched); end != std::string::npos) {
      line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return true;
    }
    searched = buffer_.size();
    if (!fill()) return false;
  }
}

bool LineReader::take(size_t count, std::string& bytes) {
  bytes.clear();
  while (bytes.size() < count) {
    if (buffer_.empty() && !fill()) return false;
    const size_t part = std::min(count - bytes.size(), buffer_.size());
    bytes.append(buffer_, 0, part);
    buffer_.erase(0, part);
  }
  return true;
}

void LineWriter::write(const nlohmann::json& message, std::span<const NamedBlob> blobs) {
  std::lock_guard lock(mutex_);
  for (const NamedBlob& blob : blobs) {
    std::span<const std::byte> bytes = blob.tensor.bytes();
    write_all(to_line(BlobHeader{blob.name, bytes.size()}));
    write_all({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  write_all(to_line(message));
}

void LineWriter::write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) std::_Exit(0);  // nobody listens
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

bool LineWriter::has_reader() const {
  pollfd state{fd_, 0, 0};
  return ::poll(&state, 1, 0) == 0 || !(state.revents & (POLLERR | POLLHUP));
}

}  // namespace seqto::internal
