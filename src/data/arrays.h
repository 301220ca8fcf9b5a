// The arrays of an .npz or .npy, read one by one as they are asked for.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/files.h"
#include "data/zip.h"
#include "seqto/model.h"

namespace seqto::internal {

class ArrayFile {
 public:
  // Throws Error{kInvalidInput}, also for an archive without arrays unless that may be.
  explicit ArrayFile(const std::filesystem::path& path, bool may_be_empty = false);

  const std::vector<std::string>& names() const { return names_; }  // "" for an .npy
  bool has(const std::string& name) const;
  Tensor load(const std::string& name) const;  // `name` is one of names()
  const std::string& file() const { return file_; }

 private:
  std::string file_;
  MappedFile mapped_;
  std::vector<ZipMember> members_;  // of the same index as names_; empty for an .npy
  std::vector<std::string> names_;
};

}  // namespace seqto::internal
