// Room: runner/worker. Bytes on their way into a pipe: messages, and blobs that are written from where they lie.
#pragma once

#include <deque>
#include <string>

#include "base/subprocess.h"
#include "runner/worker/blobs.h"

namespace seqto::internal {

class Outgoing {
 public:
  void add(std::string text) { pieces_.push_back({std::move(text), {}}); }
  void add(Blob blob) { pieces_.push_back({"", std::move(blob)}); }
  bool empty() const { return pieces_.empty(); }
  // As much as the pipe takes now. False when nobody reads any more.
  bool write_to(int fd) {
    while (!pieces_.empty()) {
      const std::string_view rest = pieces_.front().view().substr(written_);
      const auto written = write_available(fd, rest);
      if (!written) return false;
      written_ += *written;
      if (*written < rest.size()) return true;
      pieces_.pop_front();
      written_ = 0;
    }
    return true;
  }

 private:
  struct Piece {
    std::string text;
    Blob blob;
    std::string_view view() const {
      return blob.owner ? std::string_view(reinterpret_cast<const char*>(blob.bytes.data()), blob.bytes.size()) : text;
    }
  };
  std::deque<Piece> pieces_;
  size_t written_ = 0;  // of the first
};

}  // namespace seqto::internal
