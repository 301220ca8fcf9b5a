#include "batches.h"

#include <stdlib.h>
#include <unistd.h>

#include "seqto/error.h"

namespace seqto::python {
namespace {

// TMPDIR says where.
std::filesystem::path folder() {
  std::error_code none;
  const auto found = std::filesystem::temp_directory_path(none);
  return none ? "/tmp" : found;
}

[[noreturn]] void fail(const std::string& what) {
  throw Error(Code::kInternal, "[calibrate] a temporary file that cannot be " + what + " found in " +
                                   folder().string() +
                                   "; room for the samples expected; set TMPDIR to a folder that has it");
}

// Without a name: it goes with the process, however that ends.
std::FILE* open_unnamed() {
  std::string path = (folder() / "seqto-batches-XXXXXX").string();
  const int descriptor = mkstemp(path.data());
  if (descriptor < 0) fail("made");
  unlink(path.c_str());
  return fdopen(descriptor, "r+b");
}

}  // namespace

void Batches::append(Sample batch) {
  batch.name = std::to_string(places_.size());
  batch.position = std::ssize(places_);
  Place place;
  int64_t bytes = 0;
  for (const Tensor& t : batch.inputs) bytes += std::ssize(t.bytes());
  left_ -= bytes;
  if (left_ < 0) {
    if (!file_) file_.reset(open_unnamed());
    place.offset = end_;
    for (Tensor& t : batch.inputs) {
      if (std::fwrite(t.bytes().data(), 1, t.bytes().size(), file_.get()) != t.bytes().size()) fail("written");
      place.bytes.push_back(t.bytes().size());
      end_ += std::ssize(t.bytes());
      t = Tensor(t.type(), t.dims(), nullptr, {});
    }
    if (std::fflush(file_.get()) != 0) fail("written");
  }
  place.kept = std::move(batch);
  places_.push_back(std::move(place));
}

Sample Batches::read(int64_t index) const {
  const Place& place = places_[static_cast<size_t>(index)];
  Sample batch = place.kept;
  int64_t offset = place.offset;
  for (size_t i = 0; i < place.bytes.size(); ++i) {
    Tensor& t = batch.inputs[i];
    const size_t bytes = place.bytes[i];
    std::vector<std::byte> values(bytes);
    for (size_t done = 0; done < bytes;) {
      const ssize_t got =
          pread(fileno(file_.get()), values.data() + done, bytes - done, offset + static_cast<int64_t>(done));
      if (got <= 0) fail("read");
      done += static_cast<size_t>(got);
    }
    offset += static_cast<int64_t>(bytes);
    t = Tensor::from(t.type(), t.dims(), std::move(values));
  }
  return batch;
}

}  // namespace seqto::python
