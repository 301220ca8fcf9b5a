#include "uploads.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <utility>
#include <vector>

#include "network.h"

namespace seqto::on_tvm {
namespace {

namespace fs = std::filesystem;

constexpr size_t kKept = 16;

// A name within the folder: nothing that leads out of it.
std::string checked(const std::string& name) {
  bool plain = !name.empty() && name.front() != '.' && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '.' || c == '_' || c == '-';
  });
  if (!plain)
    throw Error(Code::kInvalidInput, "[serve] file name '" + name + "' found; letters, digits, '.', '_', '-' expected");
  return name;
}

void remove_oldest(const fs::path& folder) {
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    files.emplace_back(entry.last_write_time(error), entry.path());
  std::sort(files.rbegin(), files.rend());
  for (size_t i = kKept; i < files.size(); ++i) fs::remove(files[i].second, error);
}

void store(const fs::path& folder, const std::string& name, std::string_view bytes) {
  fs::path path = folder / checked(name), temporary = path;
  temporary += ".tmp-" + std::to_string(::getpid());
  std::ofstream file(temporary, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  std::error_code error;
  if (!file) fs::remove(temporary, error);
  else fs::rename(temporary, path, error);
  if (!file || error)
    throw Error(Code::kUnavailable, "[serve] no room for " + std::to_string(bytes.size()) + " bytes in " +
                                        folder.string() + "; free some or give --folder");
  remove_oldest(folder);
}

LockedFolder temporary_folder() {
  constexpr std::string_view kPrefix = "seqto-tvm-uploads-";
  std::error_code error;
  fs::path parent = fs::temp_directory_path(error);
  if (error) parent = ".";
  remove_stale_folders(parent, kPrefix);
  LockedFolder folder(parent, kPrefix);
  if (folder.path().empty())
    throw Error(Code::kUnavailable,
                "[serve] no folder can be made in " + parent.string() + "; give --folder or set TMPDIR");
  return folder;
}

}  // namespace

Uploads::Uploads(const std::string& folder) {
  // A folder of its own: the oldest files in it are removed.
  folder_ = (folder.empty() ? temporary_.emplace(temporary_folder()).path() : fs::path(folder)) / "seqto-uploads";
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error)
    throw Error(Code::kUnavailable,
                "[serve] " + folder_.string() + ": " + error.message() + "; choose another --folder");
}

void Uploads::register_functions() const {
  auto folder = folder_;
  auto path_of = [folder](const ffi::String& name) { return (folder / checked(name)).string(); };
  auto replace = [](const char* name, ffi::Function f) { ffi::Function::SetGlobal(name, std::move(f), true); };
  replace("tvm.rpc.server.workpath",
          ffi::Function::FromTyped([path_of](const ffi::String& name) { return ffi::String(path_of(name)); }));
  replace("tvm.rpc.server.load_module", ffi::Function::FromTyped([path_of](const ffi::String& name) {
            return ffi::Module::LoadFromFile(path_of(name));
          }));
  replace("tvm.rpc.server.upload", ffi::Function::FromTyped([folder](const ffi::String& name, const ffi::Bytes& bytes) {
            store(folder, name, {bytes.data(), bytes.size()});
          }));
  register_network_functions(folder.string());
}

}  // namespace seqto::on_tvm
