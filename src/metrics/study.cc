#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/descriptor.h"
#include "base/file_lock.h"
#include "base/files.h"
#include "base/json.h"
#include "metrics/loss/loss_fields.h"
#include "metrics/study_header.h"
#include "metrics/trial_json.h"
#include "seqto/error.h"
#include "seqto/metrics.h"

namespace seqto {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;  // of the file's form

// Before the text of a note, which is kept as it came; unless another program wrote the line anew.
std::string note_prefix(const std::string& name) { return fmt::format("{{\"note\":{},\"value\":", Json(name).dump()); }

}  // namespace

// The open file. The lock is the descriptor's, so it ends with the process, however that ends.
class Study::File {
 public:
  explicit File(const std::filesystem::path& path)
      // Close-on-exec: a worker process must not hold the lock after us.
      : path_(path.string()), descriptor_(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
    if (descriptor_.get() < 0) fail("cannot be opened for writing", "choose another folder");
    lock_study(descriptor_.get(), path);
  }

  void truncate(size_t size_bytes) {
    if (ftruncate(descriptor_.get(), static_cast<off_t>(size_bytes)) != 0) fail("cannot be cut", "look at the disk");
  }

  // One write: a killed process leaves the whole line or a torn end that open() cuts off. There is no fsync:
  // only a power failure could lose the line, and that costs one trial to measure again.
  void append(std::string line) {
    line += '\n';
    struct stat before{};
    if (fstat(descriptor_.get(), &before) != 0) fail("cannot be read", "look at the disk");
    require_place(before);
    for (std::string_view rest = line; !rest.empty();) {
      const ssize_t written = ::write(descriptor_.get(), rest.data(), rest.size());
      if (written >= 0) {
        rest.remove_prefix(static_cast<size_t>(written));
      } else if (errno != EINTR) {
        const int reason = errno;
        if (rest.size() < line.size()) truncate(static_cast<size_t>(before.st_size));
        errno = reason;
        fail("cannot be written", "make room on the disk and run again to resume");
      }
    }
  }

 private:
  // What is appended to a file that nobody finds any more is lost.
  void require_place(const struct stat& open) const {
    struct stat there{};
    if (stat(path_.c_str(), &there) == 0 && there.st_dev == open.st_dev && there.st_ino == open.st_ino) return;
    throw Error(Code::kInvalidInput,
                fmt::format("[study] {} was removed, renamed or replaced while this run wrote it; a folder that stays "
                            "was expected; run again: where it was renamed, with its new name, to go on",
                            path_));
  }

  [[noreturn]] void fail(const char* what, const char* remedy) const {
    throw Error(Code::kInvalidInput, fmt::format("[study] {} {}: {}; a writable file expected; {}", path_, what,
                                                 std::strerror(errno), remedy));
  }

  std::string path_;
  Descriptor descriptor_;
};

Study::Study() = default;
Study::Study(Study&&) noexcept = default;
Study& Study::operator=(Study&&) noexcept = default;
Study::~Study() = default;

namespace {

// Trials of before a loss was there, whose value is NaN then, cannot be compared with those of after it.
std::string_view missing_loss(std::span<const Trial> trials) {
  for (const LossField& field : kLossFields)
    for (const Trial& t : trials)
      if (t.measurement && std::isnan(t.measurement->losses.*field.value)) return field.name;
  return {};
}

}  // namespace

Study Study::open(const std::filesystem::path& file, const StudyHeader& header) {
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  make_writable_folder(folder);
  Study study;
  study.file_ = std::make_unique<File>(file);
  const std::string text = read_file(file);
  const size_t whole = study.parse(text, file.string());
  if (whole < text.size()) study.file_->truncate(whole);
  if (whole == 0) {
    study.header_ = header;
    study.file_->append(Json{{"study", kVersion}, {"header", header_to_json(header)}}.dump());
    return study;
  }
  if (const std::string what = differences(study.header_, header); !what.empty()) {
    throw Error(Code::kInvalidInput,
                fmt::format("[study] a study of something else in {}: {}; choose another folder or delete it",
                            folder.string(), what));
  }
  if (const std::string_view loss = missing_loss(study.trials_); !loss.empty())
    throw Error(
        Code::kInvalidInput,
        fmt::format("[study] a study of an earlier version in {}: trials without the loss {} found, which new ones "
                    "would have; choose another folder or delete it",
                    folder.string(), loss));
  return study;
}

Study Study::read(const std::filesystem::path& file) {
  Study study;
  if (study.parse(read_file(file), file.string()) == 0) {
    throw Error(Code::kInvalidInput,
                fmt::format("[study] {} holds no study; a header line expected; run tune first", file.string()));
  }
  return study;
}

size_t Study::parse(std::string_view text, const std::string& name) {
  size_t begin = 0;
  for (int64_t number = 1;; ++number) {
    const size_t end = text.find('\n', begin);
    if (end == std::string_view::npos) return begin;  // what follows is a torn line, or nothing
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    try {
      const Json json = internal::parse_json<Json>(line);
      if (number == 1) {
        if (json.at("study") != kVersion) {
          throw Error(Code::kInvalidInput,
                      fmt::format("[study] version {} found; {} expected; use the seqto that wrote "
                                  "it, or another folder",
                                  json.at("study").dump(), kVersion));
        }
        header_ = header_from_json(json.at("header"));
      } else if (json.contains("note")) {
        const std::string note = json.at("note"), prefix = note_prefix(note);
        const bool as_written = json.size() == 2 && line.starts_with(prefix) && line.ends_with('}');
        notes_[note] = as_written ? std::string(line.substr(prefix.size(), line.size() - prefix.size() - 1))
                                  : json.at("value").dump();
      } else {
        trials_.push_back(internal::trial_of(json.at("trial")));
      }
    } catch (const std::exception& error) {
      throw Error(Code::kInvalidInput,
                  fmt::format("[study] {} line {}: {}; a study expected; choose another folder or delete it", name,
                              number, error.what()));
    }
  }
}

const Trial* Study::find(const std::string& id, Part part) const {
  for (auto trial = trials_.rbegin(); trial != trials_.rend(); ++trial) {
    if (trial->id == id && trial->part == part) return &*trial;
  }
  return nullptr;
}

void Study::append(Trial trial) {
  assert(file_ && "read() gives no right to append");
  trial.number = static_cast<int64_t>(trials_.size());
  file_->append("{\"trial\":" + trial_to_json(trial) + "}");
  trials_.push_back(std::move(trial));
}

void Study::note(const std::string& name, const std::string& json) {
  assert(file_ && "read() gives no right to append");
  assert(json.find('\n') == std::string::npos && Json::accept(json));
  file_->append(note_prefix(name) + json + "}");
  notes_[name] = json;
}

const std::string* Study::noted(const std::string& name) const {
  const auto note = notes_.find(name);
  return note == notes_.end() ? nullptr : &note->second;
}

}  // namespace seqto
