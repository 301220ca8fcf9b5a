// The processes that a test started.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace seqto::testing {

// Folders in /proc of the children of this process.
inline std::vector<std::filesystem::path> children() {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream stat(entry.path() / "stat");
    std::string pid, name, state;
    int parent = 0;
    if (stat >> pid >> name >> state >> parent && parent == ::getpid()) found.push_back(entry.path());
  }
  return found;
}

// The folders of blobs that they were started with.
inline std::set<std::filesystem::path> blob_folders() {
  std::set<std::filesystem::path> folders;
  for (const auto& child : children()) {
    std::ifstream command(child / "cmdline");
    std::string word, before;
    for (; std::getline(command, word, '\0'); before = word)
      if (before == "--blobs") folders.insert(word);
  }
  return folders;
}

}  // namespace seqto::testing
