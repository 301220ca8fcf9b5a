// seqto-tvm serve: the folder where compiled models lie that clients uploaded.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/locked_folder.h"

namespace seqto::on_tvm {

class Uploads {
 public:
  // Files lie in seqto-uploads below `folder`. An empty name: a temporary folder, removed with this object, or by the
  // next server where this process is killed. Throws Error{kUnavailable} where none can be made.
  explicit Uploads(const std::string& folder);
  Uploads(const Uploads&) = delete;
  Uploads& operator=(const Uploads&) = delete;
  const std::filesystem::path& folder() const { return folder_; }

  // Registers what TVM's clients call: upload, load_module, workpath; and seqto.open. Files stay for later connections;
  // only the newest sixteen are kept.
  void register_functions() const;

 private:
  std::optional<LockedFolder> temporary_;
  std::filesystem::path folder_;
};

}  // namespace seqto::on_tvm
