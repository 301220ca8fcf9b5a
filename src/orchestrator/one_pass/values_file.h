// Room: orchestrator/one_pass. Tensors of samples, kept in a file: what would be too much to keep in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "seqto/model.h"

namespace seqto::internal {

// For each owner and sample one, of any type but strings.
class ValuesFile {
 public:
  explicit ValuesFile(const std::filesystem::path& path);  // throws Error{kInvalidInput}
  ~ValuesFile();
  ValuesFile(ValuesFile&& other) noexcept;
  ValuesFile& operator=(ValuesFile&& other) noexcept;

  // Once for each owner and sample. Throws Error{kInvalidInput} where the disk is full.
  void put(size_t owner, size_t sample, const Tensor& tensor);
  Tensor get(size_t owner, size_t sample) const;

 private:
  struct Place {
    DataType type = DataType::kUndefined;
    std::vector<int64_t> dims;
    int64_t offset = 0, bytes = 0;
  };
  int fd_ = -1;
  std::map<std::pair<size_t, size_t>, Place> places_;
  int64_t end_ = 0;
};

}  // namespace seqto::internal
