// seqto-tvm serve: the folder where compiled models lie that clients uploaded.
#pragma once

#include <filesystem>
#include <string>

namespace seqto::on_tvm {

class Uploads {
 public:
  // An empty name: a temporary folder, removed with this object. Throws Error{kUnavailable} where none can be made.
  explicit Uploads(const std::string& folder);
  ~Uploads();
  Uploads(const Uploads&) = delete;
  Uploads& operator=(const Uploads&) = delete;
  const std::filesystem::path& folder() const { return folder_; }

  // Registers what TVM's clients call: upload, load_module, workpath; and seqto.open. Files stay for later connections;
  // only the newest sixteen are kept.
  void register_functions() const;

 private:
  std::filesystem::path folder_;
  bool temporary_;
};

}  // namespace seqto::on_tvm
