// Room: runner/worker. Blobs: bytes that a worker and the process that drives it share as files, named by their
// content.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/locked_folder.h"
#include "seqto/model.h"
#include "seqto/runner.h"

namespace seqto::internal {

using BlobFolders = std::vector<std::filesystem::path>;

// kLasting: whole, or not there, after a power cut.
enum class BlobLife { kRun, kLasting };
// Writes a blob into the first folder that has room, under a temporary name, then renames it. False when none has room.
// Throws Error{kUnavailable} where writing fails for another reason.
bool write_blob(const BlobFolders& folders, const std::string& name, std::span<const std::byte> bytes,
                BlobLife life = BlobLife::kRun);
// What to throw where it is false and no candidate is to blame: the run ends, and goes on when there is room.
DeviceGone no_room(const BlobFolders& folders, size_t bytes);
// A blob, mapped from whichever folder has it. Throws Error{kInvalidInput} where there is none, or the name is not one.
struct Blob {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
};
Blob read_blob(const BlobFolders& folders, const std::string& name);
// How a reader of messages finds the blobs that they name.
using GetBlob = std::function<Blob(const std::string& name)>;
// 1 to 128 of 0-9, a-z and '-': nothing that leads out of the folder.
bool is_blob_name(const std::string& name);
void remove_blob(const BlobFolders& folders, const std::string& name) noexcept;

// The blobs of the driving process: each content is written once. Blobs that no request uses make room for new ones,
// the longest unused first. Any thread.
class BlobStore {
 public:
  // Makes folders of its own: in shared memory, and where that is full below $TMPDIR. Folders of processes that were
  // killed are removed. `most_bytes`: from where on blobs that nobody uses are removed; half of the room that there is,
  // at most.
  explicit BlobStore(size_t most_bytes = size_t{1} << 30);
  ~BlobStore();
  BlobStore(const BlobStore&) = delete;
  BlobStore& operator=(const BlobStore&) = delete;
  const BlobFolders& folders() const { return folders_; }

  // The blobs of one request; they stay until it is gone.
  class Lease {
   public:
    explicit Lease(BlobStore& store) : store_(store) {}
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    // The name of the blob that holds the tensor's bytes. The bytes are hashed once as long as somebody shares them.
    // Throws DeviceGone when there is no room.
    std::string put(const Tensor& tensor);

   private:
    BlobStore& store_;
    std::vector<std::string> names_;
  };

 private:
  struct Entry {
    size_t size = 0;
    int leases = 0;
    uint64_t last_use = 0;
  };
  struct Known {
    std::weak_ptr<const void> lifetime;
    std::string name;
  };
  std::string name_of(const Tensor& tensor);
  void add(const std::string& name, std::span<const std::byte> bytes);
  bool evict();  // one blob; false when all are in use

  BlobFolders folders_;
  std::vector<LockedFolder> owned_;  // held as long as this process lives
  std::mutex mutex_;
  std::unordered_map<std::string, Entry> entries_;
  std::map<std::pair<const std::byte*, size_t>, Known> known_;
  size_t known_limit_ = 1024;  // where names of tensors that are gone are forgotten
  size_t bytes_ = 0, most_bytes_ = 0;
  uint64_t uses_ = 0;
};

}  // namespace seqto::internal
