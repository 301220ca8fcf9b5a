#include "orchestrator/hub/unpack.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/descriptor.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

namespace fs = std::filesystem;

class Unpacker {
 public:
  Unpacker(const fs::path& path, const fs::path& to, const UnpackLimits& limits, const Env& env)
      : path_(path), to_(to), limits_(limits), env_(env), archive_(::archive_read_new(), ::archive_read_free) {
    ::archive_read_support_filter_gzip(archive_.get());
    ::archive_read_support_format_tar(archive_.get());
  }

  void run() {
    if (::archive_read_open_filename(archive_.get(), path_.c_str(), 1 << 16) != ARCHIVE_OK) broken();
    archive_entry* entry = nullptr;
    int status;
    while ((status = ::archive_read_next_header(archive_.get(), &entry)) == ARCHIVE_OK || status == ARCHIVE_WARN) {
      env_.stop_if_cancelled("hub");
      if (++entries_ > limits_.max_entries) fail(fmt::format("more than {} entries", limits_.max_entries));
      unpack(entry);
    }
    if (status != ARCHIVE_EOF) broken();
    if (entries_ == 0) fail("no entry");
  }

 private:
  [[noreturn]] void fail(const std::string& found) const {
    throw Error(Code::kInvalidInput,
                fmt::format("[hub] {}: {} found; an archive of plain files and folders was expected; it is not used",
                            path_.string(), found));
  }
  [[noreturn]] void broken() const {
    const char* text = ::archive_error_string(archive_.get());
    fail(fmt::format("no whole .tar.gz ({})", text ? text : "no reason given"));
  }

  void unpack(archive_entry* entry) {
    const char* text = ::archive_entry_pathname(entry);
    std::string name = text ? text : "";
    if (name == "." || name == "./") return;
    if (!safe_relative(name)) fail(fmt::format("the unsafe name '{}'", name));
    auto type = ::archive_entry_filetype(entry);
    if (::archive_entry_hardlink(entry) || ::archive_entry_symlink(entry) || (type != AE_IFREG && type != AE_IFDIR))
      fail(fmt::format("'{}', a link or device,", name));
    fs::path target = to_ / fs::path(name).lexically_normal();
    if (target.filename().string().starts_with("._")) return;  // what macOS adds to a tar of its own
    std::error_code error;
    fs::create_directories(type == AE_IFDIR ? target : target.parent_path(), error);
    if (error) fail(fmt::format("'{}' as a file and as a folder", name));
    if (type == AE_IFREG) write(name, target);
  }

  void write(const std::string& name, const fs::path& target) {
    Descriptor file(::open(target.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
    if (file.get() < 0 && (errno == EEXIST || errno == EISDIR)) fail(fmt::format("'{}' twice", name));
    if (file.get() < 0) unwritable(target);
    const void* data = nullptr;
    size_t size = 0;
    la_int64_t offset = 0;
    int status;
    while ((status = ::archive_read_data_block(archive_.get(), &data, &size, &offset)) == ARCHIVE_OK) {
      bytes_ += static_cast<int64_t>(size);
      // A hole of a sparse file is as good as bytes: whoever reads the file gets them.
      if (bytes_ > limits_.max_bytes || offset > limits_.max_bytes)
        fail(fmt::format("more than {} bytes unpacked", limits_.max_bytes));
      if (::pwrite(file.get(), data, size, offset) != static_cast<ssize_t>(size)) unwritable(target);
    }
    if (status != ARCHIVE_EOF) broken();
  }

  [[noreturn]] void unwritable(const fs::path& target) const {
    throw Error(Code::kInvalidInput, fmt::format("[hub] {}: {}; make room or choose another --hub-cache",
                                                 target.string(), std::strerror(errno)));
  }

  const fs::path &path_, &to_;
  const UnpackLimits& limits_;
  const Env& env_;
  std::unique_ptr<archive, int (*)(archive*)> archive_;
  int64_t entries_ = 0, bytes_ = 0;
};

}  // namespace

bool safe_relative(const std::string& name) {
  if (name.empty() || name.size() > 1000 || name.front() == '/') return false;
  if (std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == '\\' || c == 0x7f; }))
    return false;
  fs::path path(name);
  return std::none_of(path.begin(), path.end(), [](const fs::path& part) { return part == ".."; });
}

void unpack_tar_gz(const fs::path& archive, const fs::path& to, const UnpackLimits& limits, const Env& env) {
  struct Half {  // unpacked; nobody shall take it for the whole
    const fs::path& folder;
    bool whole = false;
    ~Half() {
      std::error_code ignored;
      if (!whole) fs::remove_all(folder, ignored);
    }
  } half{to};
  fs::create_directories(to);
  Unpacker(archive, to, limits, env).run();
  half.whole = true;
}

}  // namespace seqto::internal
