// Archives of others, unpacked so that nothing leaves the folder they are given.
#pragma once

#include <cstdint>
#include <filesystem>

#include "seqto/env.h"

namespace seqto::internal {

struct UnpackLimits {
  int64_t max_bytes = int64_t{4} << 30;  // of all files together, unpacked
  int64_t max_entries = 20000;
};

// A .tar.gz into the new folder `to`. Files and folders alone: an entry with another type (link, device), a name that
// is absolute or leads upwards, a name found twice, or more than the limits ends it with Error{kInvalidInput}; `to` is
// then removed. Permissions, owners and times of the archive are not taken over.
void unpack_tar_gz(const std::filesystem::path& archive, const std::filesystem::path& to, const UnpackLimits& limits,
                   const Env& env);

// Whether a name from outside, joined to a folder, stays below it: not empty, relative, no "..", no control characters.
bool safe_relative(const std::string& name);

}  // namespace seqto::internal
