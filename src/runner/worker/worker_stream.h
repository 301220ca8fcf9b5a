// Room: runner/worker. The worker's end of the stream: lines in and out, and over a link the blobs between them.
#pragma once

#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "seqto/model.h"

namespace seqto::internal {

class LineReader {
 public:
  explicit LineReader(int fd) : fd_(fd) {}
  // False at the end of input.
  bool next(std::string& line);
  // Exactly so many bytes of what follows. False where the input ends before.
  bool take(size_t count, std::string& bytes);

 private:
  bool fill();

  int fd_;
  std::string buffer_;
};

struct NamedBlob {
  std::string name;
  Tensor tensor;
};

// Whole messages, from any thread. Ends the process where nobody listens.
class LineWriter {
 public:
  explicit LineWriter(int fd) : fd_(fd) {}
  // Blobs first, so that they are there when they are named.
  void write(const nlohmann::json& message, std::span<const NamedBlob> blobs = {});
  bool has_reader() const;

 private:
  void write_all(std::string_view bytes);

  int fd_;
  std::mutex mutex_;
};

}  // namespace seqto::internal
