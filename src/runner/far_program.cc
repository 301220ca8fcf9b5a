#include "runner/far_program.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <sstream>

#include "runner/worker_bundle.h"
#include "seqto/error.h"

namespace seqto::internal {
namespace {

// Lines of a login shell's own are no such words.
constexpr char kLook[] = R"sh(cache="{0}"
echo "seqto-cache $cache"
echo "seqto-machine $(uname -m)"
if command -v seqto >/dev/null 2>&1; then echo "seqto-version $(seqto --version)"; fi
if test -d "$cache/worker-{1}"; then echo "seqto-copied yes"; fi)sh";

// Another connection may copy at the same time: who comes second finds the folder there and drops the own one. Of
// copies that are there the three youngest stay; a worker that runs from another goes on. A folder of an archive is as
// old as the archive.
constexpr char kCopy[] = R"sh(set -e
mkdir -p {0}
cd {0}
new="new-$$"; mkdir "$new"; trap 'rm -rf "$new"' EXIT
tar -xzf - -C "$new"
for bin in "$new"/bin "$new"/*/bin; do if test -e "$bin/seqto"; then top=${{bin%/bin}}; fi; done
test -n "$top" || {{ echo "no bin/seqto in the archive" >&2; exit 1; }}
sync
test -d worker-{1} || mv "$top" worker-{1}
touch worker-{1}
ls -1dt worker-* | tail -n +4 | while read -r old; do rm -rf "$old"; done)sh";

// Says at the end how the worker ended: without that line it was the link.
constexpr char kRun[] = R"sh(mkdir -p {0}/blobs
{1} worker --stream --blobs {0}/blobs --device {2} --threads {3}{4}
printf '{{"ended":%d}}\n' $?)sh";

std::map<std::string, std::string> look_there(const Link& link, const WorkerBundle& bundle, const Env& env) {
  std::map<std::string, std::string> found;
  std::istringstream lines(run_there(link, fmt::format(kLook, link.cache, bundle.key), "", env));
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    const size_t space = line.find(' ');
    if (line.starts_with("seqto-") && space != std::string::npos)
      found[line.substr(6, space - 6)] = line.substr(space + 1);
  }
  if (found["cache"].empty() || found["machine"].empty())
    throw Error(Code::kUnavailable,
                fmt::format("[link] {} runs no shell that answers; a POSIX sh with uname is expected", link.name));
  return found;
}

[[noreturn]] void nothing_to_copy(const Link& link, const std::string& machine, const WorkerBundle& bundle) {
  throw Error(
      Code::kUnavailable,
      fmt::format("[link] {} is {} and has no seqto {} on PATH, and {} cannot be copied there; install seqto {} "
                  "there, or set SEQTO_WORKER_PACKAGE to an archive of `./dev package` made for {}",
                  link.name, machine, SEQTO_VERSION,
                  bundle.key.empty() ? "this program, which is part of Python,"
                                     : fmt::format("this program for {}", bundle.machine),
                  SEQTO_VERSION, machine));
}

void copy_there(const Link& link, const std::string& cache, WorkerBundle bundle, const RunnerOptions& options,
                const Env& env) {
  TemporaryFolder folder;
  pack(bundle, options, folder, env);
  env.log(LogLevel::kInfo, fmt::format("copying {} to {} ({:.0f} MB, once)",
                                       worker_package().empty() ? "this program" : worker_package(), link.name,
                                       static_cast<double>(std::filesystem::file_size(bundle.file)) / 1e6));
  run_there(link, fmt::format(kCopy, quoted(cache), bundle.key), bundle.file, env);
}

std::vector<std::string> worker_there(const Link& link, const std::string& cache, const std::string& program,
                                      const RunnerOptions& options) {
  std::string further;
  for (const auto& [key, value] : options.provider_options)
    further += " --provider-option " + quoted(fmt::format("{}={}", key, value));
  return script_there(link,
                      fmt::format(kRun, quoted(cache), program, link.device, std::max(1, options.threads), further));
}

}  // namespace

std::vector<std::string> far_worker(const Link& link, const RunnerOptions& options, const Env& env) {
  const WorkerBundle bundle = find_bundle(options, env);
  auto there = look_there(link, bundle, env);
  const std::string& cache = there["cache"];
  const bool ours = !worker_package().empty() || !options.library.empty();
  if (!ours && there["version"] == "seqto " SEQTO_VERSION) return worker_there(link, cache, "seqto", options);
  if (bundle.key.empty() || (!bundle.machine.empty() && bundle.machine != there["machine"]))
    nothing_to_copy(link, there["machine"], bundle);
  if (there["copied"].empty()) copy_there(link, cache, bundle, options, env);
  const std::string top = fmt::format("{}/worker-{}", cache, bundle.key);
  const std::string program = fmt::format("LD_LIBRARY_PATH={}\"${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}\" {}",
                                          quoted(top + "/lib/seqto"), quoted(top + "/bin/seqto"));
  return worker_there(link, cache, program, options);
}

}  // namespace seqto::internal
