#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "runner/onnxruntime_runner.h"

namespace seqto::internal {
namespace {

namespace fs = std::filesystem;

void add_libraries_in(const fs::path& folder, std::vector<std::string>& found) {
  std::error_code error;
  std::vector<std::string> here;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    std::string name = entry.path().filename().string();
    if (name.starts_with("libonnxruntime.so") || name == "libonnxruntime.dylib") here.push_back(entry.path().string());
  }
  std::sort(here.rbegin(), here.rend());
  found.insert(found.end(), here.begin(), here.end());
}

// <root>/lib/python3.X/{site,dist}-packages/onnxruntime/capi
void add_site_packages(const fs::path& root, std::vector<std::string>& found) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root / "lib", error)) {
    if (!entry.path().filename().string().starts_with("python3")) continue;
    for (const char* packages : {"site-packages", "dist-packages"})
      add_libraries_in(entry.path() / packages / "onnxruntime" / "capi", found);
  }
}

// An installed tree brings its own in lib/seqto: seen from its bin, or from the folder of libseqto.so.
void add_installed(std::vector<std::string>& found) {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) add_libraries_in((program.parent_path() / "../lib/seqto").lexically_normal(), found);
  Dl_info here{};
  if (!::dladdr(reinterpret_cast<const void*>(&onnxruntime_candidates), &here) || !here.dli_fname) return;
  const fs::path library = here.dli_fname;
  if (!library.is_absolute()) return;  // as the program was called; nothing is loaded from where the user happens to be
  for (const char* folder : {"seqto", "../seqto"})
    add_libraries_in((library.parent_path() / folder).lexically_normal(), found);
}

}  // namespace

std::vector<std::string> onnxruntime_candidates(const std::string& named, const std::string& built_in) {
  if (!named.empty()) return {named};
  if (const char* variable = std::getenv("SEQTO_ORT_LIBRARY"); variable && *variable) return {variable};
  std::vector<std::string> found;
  add_installed(found);
  if (!built_in.empty()) found.push_back(built_in);
  if (const char* venv = std::getenv("VIRTUAL_ENV")) add_site_packages(venv, found);
  if (const char* home = std::getenv("HOME")) add_site_packages(fs::path(home) / ".local", found);
  add_site_packages("/usr/local", found);
  add_site_packages("/usr", found);
  found.push_back("libonnxruntime.so.1");
  found.push_back("libonnxruntime.so");
  return found;
}

}  // namespace seqto::internal
