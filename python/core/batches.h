// What calibration readers give: each batch a run of the model, in memory while they are few, then in a temporary file.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>

#include "data.h"

namespace seqto::python {

class Batches : public Dataset {
 public:
  // Bytes that stay in memory; a test sets less.
  explicit Batches(int64_t kept_bytes = 16 << 20) : left_(kept_bytes) {}

  // Throws Error{kInternal} where the temporary folder has no room.
  void append(Sample batch);

  int64_t size() const override { return std::ssize(places_); }
  Sample read(int64_t index) const override;
  bool has_labels() const override { return false; }
  std::string fingerprint() const override { return "given by the caller"; }

 private:
  struct Place {
    Sample kept;  // without values where they are in the file
    int64_t offset = 0;
    std::vector<size_t> bytes;  // of each input in the file; empty: in memory
  };
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  int64_t left_, end_ = 0;  // bytes that memory may still take; bytes in the file
  std::vector<Place> places_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace seqto::python
