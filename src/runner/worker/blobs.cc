#include "runner/worker/blobs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/files.h"
#include "base/hash.h"
#include "seqto/error.h"
#include "seqto/runner.h"

namespace seqto::internal {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFolder = "seqto-blobs-";

int write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return 0;
}

// errno's value, 0 when it went well.
int write_file(const fs::path& path, std::span<const std::byte> bytes, BlobLife life) {
  static std::atomic<unsigned> serial{0};
  fs::path temporary = path;
  temporary += fmt::format(".{}-{}", ::getpid(), serial++);
  Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (file.get() < 0) return errno;
  int error = write_all(file.get(), bytes);
  // A name that is on the disk before its bytes would stand for them.
  if (error == 0 && life == BlobLife::kLasting && ::fsync(file.get()) != 0) error = errno;
  if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) ::unlink(temporary.c_str());
  return error;
}

}  // namespace

bool is_blob_name(const std::string& name) {
  return !name.empty() && name.size() <= 128 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-';
  });
}

bool write_blob(const BlobFolders& folders, const std::string& name, std::span<const std::byte> bytes, BlobLife life) {
  for (const fs::path& folder : folders) {
    int error = write_file(folder / name, bytes, life);
    if (error == 0) return true;
    if (error != ENOSPC && error != EDQUOT)
      throw Error(Code::kUnavailable, fmt::format("[worker] {}: {}; a writable folder was expected", folder.string(),
                                                  std::strerror(error)));
  }
  return false;
}

DeviceGone no_room(const BlobFolders& folders, size_t bytes) {
  return DeviceGone(fmt::format("[worker] no room for {} bytes in {}; free some or set TMPDIR to a folder with room",
                                bytes, folders.back().string()));
}

Blob read_blob(const BlobFolders& folders, const std::string& name) {
  if (is_blob_name(name))
    for (const fs::path& folder : folders) {
      std::error_code ignored;
      if (!fs::exists(folder / name, ignored)) continue;
      auto file = std::make_shared<const MappedFile>(folder / name);
      return {file, file->bytes()};
    }
  throw Error(Code::kInvalidInput, fmt::format("[worker] no blob '{}' found; a file of that name was expected in the "
                                               "folder of --blobs",
                                               name));
}

void remove_blob(const BlobFolders& folders, const std::string& name) noexcept {
  for (const fs::path& folder : folders) ::unlink((folder / name).c_str());
}

BlobStore::BlobStore(size_t most_bytes) : most_bytes_(most_bytes) {
  std::error_code ignored;
  const fs::path temporary = temporary_parent();
  for (const fs::path& parent : {fs::path("/dev/shm"), temporary}) {
    remove_stale_folders(parent, kFolder);
    LockedFolder made(parent, kFolder);
    if (made.path().empty()) continue;
    folders_.push_back(made.path());
    owned_.push_back(std::move(made));
  }
  if (folders_.empty())
    throw Error(Code::kUnavailable, fmt::format("[worker] {}: {}; a writable folder was expected; set TMPDIR to one",
                                                temporary.string(), std::strerror(errno)));
  auto space = fs::space(folders_.front(), ignored);
  if (!ignored) most_bytes_ = std::min<size_t>(most_bytes, space.available / 2);
}

BlobStore::~BlobStore() = default;

BlobStore::Lease::~Lease() {
  std::lock_guard lock(store_.mutex_);
  for (const auto& name : names_) --store_.entries_.at(name).leases;
}

std::string BlobStore::Lease::put(const Tensor& tensor) {
  std::lock_guard lock(store_.mutex_);
  std::string name = store_.name_of(tensor);
  if (!store_.entries_.contains(name)) store_.add(name, tensor.bytes());
  Entry& entry = store_.entries_.at(name);
  ++entry.leases;
  entry.last_use = ++store_.uses_;
  names_.push_back(name);
  return name;
}

std::string BlobStore::name_of(const Tensor& tensor) {
  auto lifetime = tensor.lifetime();
  auto key = std::pair(tensor.bytes().data(), tensor.bytes().size());
  if (auto it = known_.find(key); it != known_.end() && !it->second.lifetime.expired()) return it->second.name;
  if (known_.size() >= known_limit_) {
    std::erase_if(known_, [](const auto& k) { return k.second.lifetime.expired(); });
    known_limit_ = std::max<size_t>(1024, 2 * known_.size());
  }
  std::string name = xxh3_hex(tensor.bytes());
  known_[key] = {lifetime, name};
  return name;
}

void BlobStore::add(const std::string& name, std::span<const std::byte> bytes) {
  while (bytes_ + bytes.size() > most_bytes_ && evict()) {
  }
  while (!write_blob(folders_, name, bytes))
    if (!evict()) throw no_room(folders_, bytes.size());
  entries_[name] = {bytes.size(), 0, 0};
  bytes_ += bytes.size();
}

bool BlobStore::evict() {
  auto oldest = entries_.end();
  for (auto it = entries_.begin(); it != entries_.end(); ++it)
    if (it->second.leases == 0 && (oldest == entries_.end() || it->second.last_use < oldest->second.last_use))
      oldest = it;
  if (oldest == entries_.end()) return false;
  remove_blob(folders_, oldest->first);
  bytes_ -= oldest->second.size;
  entries_.erase(oldest);
  return true;
}

}  // namespace seqto::internal
