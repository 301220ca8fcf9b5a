// A "device" that the fake program `adb` reaches: this machine, by a shell. The link can be cut.
#pragma once

#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/files.h"

namespace seqto {

// Puts `adb` first on PATH, for the life of the process. Its processes leave their ids in the folder.
class FakeLink {
 public:
  // `program` is `seqto` on PATH there; empty: there is none.
  explicit FakeLink(const std::string& program = "") {
    namespace fs = std::filesystem;
    fs::create_directories(folder_.path / "here");
    fs::create_directories(folder_.path / "there");
    fs::create_directories(folder_.path / "links");
    std::ofstream(adb()) << "#!/bin/sh\n"
                         << "test -e " << away().string() << " && { echo 'device not found' >&2; exit 1; }\n"
                         << ": >" << (folder_.path / "links").string() << "/$$\n"
                         << "exec env TMPDIR=" << folder_.path.string() << " PATH=" << (folder_.path / "there").string()
                         << ":/usr/bin:/bin sh -c \"$5\"\n";
    fs::permissions(adb(), fs::perms::owner_all);
    if (!program.empty()) install(program);
    ::setenv("PATH", ((folder_.path / "here").string() + ":" + std::getenv("PATH")).c_str(), 1);
  }
  void install(const std::string& program) {
    std::filesystem::create_symlink(program, folder_.path / "there" / "seqto");
  }
  std::filesystem::path cache() const { return folder_.path / "seqto"; }
  std::filesystem::path away() const { return folder_.path / "away"; }
  // Kills every connection with what runs at its end; how many there were.
  int cut() const {
    int connections = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path / "links")) {
      connections += ::kill(-std::stoi(entry.path().filename().string()), SIGKILL) == 0;
      std::filesystem::remove(entry.path());
    }
    return connections;
  }

 private:
  std::filesystem::path adb() const { return folder_.path / "here" / "adb"; }
  TemporaryFolder folder_;
};

}  // namespace seqto
