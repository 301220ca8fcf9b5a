#include "data/sound_file.h"

#include <fmt/format.h>
#include <sndfile.h>

#include <algorithm>
#include <cmath>

#include "base/shared_library.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

// The functions that are used; see docs/design/decisions/0008-audio.md for why they are not linked.
struct Library {
  decltype(&::sf_open) open;
  decltype(&::sf_close) close;
  decltype(&::sf_seek) seek;
  decltype(&::sf_readf_float) readf_float;
  decltype(&::sf_readf_short) readf_short;
  decltype(&::sf_strerror) strerror;
};

Library load_library() {
  const SharedLibrary sndfile("data", {"libsndfile.so.1"}, "it is needed to read audio; install libsndfile1");
  Library library{};
  sndfile.find("sf_open", library.open);
  sndfile.find("sf_close", library.close);
  sndfile.find("sf_seek", library.seek);
  sndfile.find("sf_readf_float", library.readf_float);
  sndfile.find("sf_readf_short", library.readf_short);
  sndfile.find("sf_strerror", library.strerror);
  return library;
}

// Never closed. One that was not found is looked for again.
const Library& sndfile() {
  static const Library library = load_library();
  return library;
}

SNDFILE* handle_of(void* file) { return static_cast<SNDFILE*>(file); }

}  // namespace

SoundFile::SoundFile(const std::filesystem::path& path) : name_(path.string()) {
  SF_INFO info{};
  file_ = sndfile().open(name_.c_str(), SFM_READ, &info);
  if (!file_)
    throw Error(Code::kInvalidInput, fmt::format("[data] {}: {}; a sound file (.wav, .flac) expected; convert it or "
                                                 "take it out of the folder",
                                                 name_, sndfile().strerror(nullptr)));
  frames_ = info.frames, channels_ = info.channels, rate_ = info.samplerate;
  const int format = info.format & SF_FORMAT_SUBMASK;
  holds_floats_ = format == SF_FORMAT_FLOAT || format == SF_FORMAT_DOUBLE;
}

SoundFile::~SoundFile() {
  if (file_) sndfile().close(handle_of(file_));
}

void SoundFile::seek(int64_t first) {
  if (sndfile().seek(handle_of(file_), first, SEEK_SET) != first)
    throw Error(Code::kInvalidInput, fmt::format("[data] {}: frame {} cannot be reached; the file is damaged, copy it "
                                                 "again",
                                                 name_, first));
}

void SoundFile::require_all(int64_t read, int64_t count) const {
  if (read == count) return;
  throw Error(Code::kInvalidInput, fmt::format("[data] {}: {} of {} frames found; the file is damaged, copy it again",
                                               name_, std::max<int64_t>(0, read), count));
}

std::vector<float> SoundFile::read_floats(int64_t first, int64_t count) {
  seek(first);
  std::vector<float> values(static_cast<size_t>(count * channels_));
  const int64_t read = sndfile().readf_float(handle_of(file_), values.data(), count);
  require_all(read, count);
  return values;
}

std::vector<int16_t> SoundFile::read_int16(int64_t first, int64_t count) {
  if (holds_floats_) {  // the library casts them: -1 to 1 would be silence
    std::vector<int16_t> values;
    for (const float value : read_floats(first, count))
      values.push_back(static_cast<int16_t>(std::clamp(std::nearbyint(value * 32768.0f), -32768.0f, 32767.0f)));
    return values;
  }
  seek(first);
  std::vector<int16_t> values(static_cast<size_t>(count * channels_));
  const int64_t read = sndfile().readf_short(handle_of(file_), values.data(), count);
  require_all(read, count);
  return values;
}

}  // namespace seqto::internal
