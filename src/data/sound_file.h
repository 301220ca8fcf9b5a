// Audio files through libsndfile, which is loaded when the first one is opened.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace seqto::internal {

// One open file. Movable; one thread at a time.
class SoundFile {
 public:
  // Throws Error{kInvalidInput} naming the file and libsndfile's reason, Error{kUnavailable} without libsndfile.
  explicit SoundFile(const std::filesystem::path& path);
  ~SoundFile();
  SoundFile(const SoundFile&) = delete;
  SoundFile& operator=(const SoundFile&) = delete;

  int64_t frames() const { return frames_; }
  int64_t channels() const { return channels_; }
  int64_t rate() const { return rate_; }

  // Frames from `first` on, channels side by side in each; fewer where the file ends. Floats are -1 to 1 where the
  // file has whole numbers; int16 are the file's upper 16 bits, or its floats times 2^15.
  std::vector<float> read_floats(int64_t first, int64_t count);
  std::vector<int16_t> read_int16(int64_t first, int64_t count);

 private:
  void seek(int64_t first);
  void require_all(int64_t read, int64_t count) const;  // throws Error{kInvalidInput}

  std::string name_;
  void* file_ = nullptr;  // SNDFILE*
  int64_t frames_ = 0, channels_ = 0, rate_ = 0;
  bool holds_floats_ = false;
};

}  // namespace seqto::internal
