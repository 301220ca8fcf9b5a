#include "runner/worker_bundle.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

#include "base/hash.h"
#include "base/run_command.h"
#include "runner/onnxruntime_runner.h"
#include "runner/worker/worker_runner.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

namespace fs = std::filesystem;

// Those of the C library have to be the machine's own.
constexpr std::array<std::string_view, 8> kOfTheSystem{"linux-vdso", "ld-linux", "libc.",       "libm.",
                                                       "libdl.",     "librt.",   "libpthread.", "libresolv."};

bool is_program(const fs::path& path) {
  std::array<char, 4> magic{};
  std::ifstream file(path, std::ios::binary);
  return file.read(magic.data(), magic.size()) && std::string_view(magic.data(), 4) ==
                                                      "\x7f"
                                                      "ELF";
}

// As the loader finds them: "libfmt.so.9 => /lib/libfmt.so.9 (0x...)".
std::vector<fs::path> libraries_of(const fs::path& program, const Env& env) {
  std::vector<fs::path> found;
  std::istringstream lines(run_command({"ldd", program.string()}, 0, env, "link").output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name, arrow, path;
    if (!(words >> name >> arrow >> path) || arrow != "=>" || !path.starts_with('/')) continue;
    if (std::ranges::none_of(kOfTheSystem, [&](std::string_view s) { return name.starts_with(s); }))
      found.emplace_back(path);
  }
  return found;
}

struct Entry {
  fs::path inside, file;
};

std::vector<Entry> entries_of(const fs::path& program, const RunnerOptions& options, const Env& env) {
  std::vector<Entry> entries{{"bin/seqto", program}};
  for (const fs::path& library : libraries_of(program, env))
    entries.push_back({fs::path("lib/seqto") / library.filename(), library});
  if (fs::path runtime = onnxruntime_file(options); !runtime.empty())
    entries.push_back({"lib/seqto/libonnxruntime.so", runtime});  // where that program looks first
  return entries;
}

fs::path program_of(const RunnerOptions& options) {
  std::error_code error;
  return fs::canonical(worker_command("", options).front(), error);
}

std::string key_of(const fs::path& file) { return xxh3_hex(MappedFile(file).bytes()); }

}  // namespace

std::string worker_package() {
  const char* variable = std::getenv("SEQTO_WORKER_PACKAGE");
  return variable ? variable : "";
}

WorkerBundle find_bundle(const RunnerOptions& options, const Env& env) {
  if (const fs::path package = worker_package(); !package.empty()) {
    if (!fs::is_regular_file(package))
      throw Error(Code::kUsage,
                  fmt::format("[link] {} found in SEQTO_WORKER_PACKAGE; an archive of ./dev package expected",
                              package.string()));
    return {key_of(package), "", package.string()};
  }
  const fs::path program = program_of(options);
  if (!is_program(program)) return {};
  std::string keys;
  for (const Entry& e : entries_of(program, options, env)) keys += e.inside.string() + " " + key_of(e.file) + "\n";
  utsname here{};
  ::uname(&here);
  return {xxh3_hex(std::as_bytes(std::span(keys))), here.machine, ""};
}

void pack(WorkerBundle& bundle, const RunnerOptions& options, const TemporaryFolder& folder, const Env& env) {
  if (!bundle.file.empty()) return;
  const fs::path tree = folder.path / "tree";
  for (const Entry& e : entries_of(program_of(options), options, env)) {
    fs::create_directories((tree / e.inside).parent_path());
    fs::create_symlink(e.file, tree / e.inside);
  }
  const std::string file = folder.path / "seqto.tar.gz";
  const Finished done = run_command({"tar", "-czhf", file, "-C", tree, "bin", "lib"}, 0, env, "link");
  if (!done.good)
    throw Error(Code::kUnavailable, fmt::format("[link] tar {}: {}; room in {} and the program tar are needed",
                                                done.how, last_line(done.errors), folder.path.string()));
  bundle.file = file;
}

}  // namespace seqto::internal
