#include "runner/worker/kept_blobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/files.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

namespace fs = std::filesystem;

constexpr auto kStale = std::chrono::hours(1);  // an unfinished file of a worker that was killed

struct Kept {
  fs::file_time_type used;
  fs::path path;
  int64_t bytes = 0;
};

// Those of a folder that others may change meanwhile, the longest unused first.
std::vector<Kept> kept_in(const fs::path& folder) {
  std::vector<Kept> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    Kept kept{entry.last_write_time(error), entry.path(), 0};
    if (!error) kept.bytes = static_cast<int64_t>(entry.file_size(error));
    if (error || !entry.is_regular_file(error)) continue;
    if (is_blob_name(kept.path.filename())) found.push_back(std::move(kept));
    else if (kept.used + kStale < fs::file_time_type::clock::now()) fs::remove(kept.path, error);
  }
  std::ranges::sort(found, {}, &Kept::used);
  return found;
}

}  // namespace

KeptBlobs::KeptBlobs(fs::path folder, int64_t most_bytes) : folder_(std::move(folder)), most_bytes_(most_bytes) {}

void KeptBlobs::add(const std::string& name, std::span<const std::byte> bytes) {
  grew_ = true;
  if (write_blob({folder_}, name, bytes, BlobLife::kLasting)) return;
  trim_to(0);
  if (write_blob({folder_}, name, bytes, BlobLife::kLasting)) return;
  throw Error(Code::kUnavailable,
              fmt::format("[worker] no room for {} bytes in {}; free some", bytes.size(), folder_.string()));
}

std::optional<Blob> KeptBlobs::find(const std::string& name) {
  std::error_code error;
  if (!is_blob_name(name) || !fs::exists(folder_ / name, error)) return std::nullopt;
  fs::last_write_time(folder_ / name, fs::file_time_type::clock::now(), error);
  try {
    auto file = std::make_shared<const MappedFile>(folder_ / name);
    return Blob{file, file->bytes()};
  } catch (const Error&) {  // another worker removed it just now
    return std::nullopt;
  }
}

void KeptBlobs::trim() {
  if (std::exchange(grew_, false)) trim_to(most_bytes_);
}

void KeptBlobs::trim_to(int64_t most_bytes) {
  std::vector<Kept> kept = kept_in(folder_);
  int64_t bytes = 0;
  for (const Kept& k : kept) bytes += k.bytes;
  std::error_code error;
  if (auto space = fs::space(folder_, error); !error)
    most_bytes = std::min(most_bytes, (static_cast<int64_t>(space.available) + bytes) / 2);
  for (const Kept& k : kept) {
    if (bytes <= most_bytes) return;
    fs::remove(k.path, error);
    bytes -= k.bytes;
  }
}

}  // namespace seqto::internal
