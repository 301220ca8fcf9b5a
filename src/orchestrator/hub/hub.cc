#include "seqto/hub.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>
#include <utility>

#include "base/file_lock.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/text.h"
#include "orchestrator/hub/download.h"
#include "orchestrator/hub/hub_manifest.h"
#include "orchestrator/hub/unpack.h"
#include "seqto/error.h"

namespace seqto {
namespace {

namespace fs = std::filesystem;

using namespace internal;

// The ONNX Model Zoo keeps its list where it always was; its files are no longer served from there (since July 2025,
// see its README) but from this mirror.
constexpr const char* kZooManifest = "https://raw.githubusercontent.com/onnx/models/main/ONNX_HUB_MANIFEST.json";
constexpr const char* kZooFiles = "https://huggingface.co/onnxmodelzoo/legacy_models/resolve/main";
constexpr const char* kManifestName = "ONNX_HUB_MANIFEST.json";
constexpr int64_t kMaxManifestBytes = 256 << 20;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

fs::path default_cache() {
  if (std::string own = variable("SEQTO_HUB_CACHE"); !own.empty()) return own;
  if (std::string xdg = variable("XDG_CACHE_HOME"); !xdg.empty()) return fs::path(xdg) / "seqto" / "hub";
  if (std::string home = variable("HOME"); !home.empty()) return fs::path(home) / ".cache" / "seqto" / "hub";
  throw Error(Code::kUsage,
              "[hub] neither HOME nor XDG_CACHE_HOME is set; a folder for the cache was expected; give "
              "--hub-cache");
}

// The place of a file in the cache, as onnx.hub has it: <path>/<sha256>_<name>.
fs::path place_of(const HubFile& file, const HubOptions& options) {
  fs::path path(file.path);
  return options.cache / path.parent_path() / (file.sha256 + "_" + path.filename().string());
}

fs::path with_suffix(fs::path path, const char* suffix) { return path += suffix; }

[[noreturn]] void unreachable(const std::string& url, const std::string& why) {
  throw Error(Code::kUnavailable,
              fmt::format("[hub] {}: {}; a file was expected there; check the network and --hub-url, "
                          "or use --offline with what the cache holds",
                          url, why));
}

// One file below its lock: complete in the cache afterwards, its hash verified just now.
void ensure(const HubFile& file, const fs::path& place, const HubOptions& options, const Env& env) {
  if (fs::exists(place)) {
    if (sha256_file(place) == file.sha256) return;
    if (options.offline)
      throw Error(
          Code::kUnavailable,
          fmt::format("[hub] {} is damaged in the cache {}; with --offline it was expected whole; fetch it once "
                      "without",
                      file.path, options.cache.string()));
    env.log(LogLevel::kWarning, fmt::format("{} is damaged in the cache; it is fetched again", place.string()));
    fs::remove(place);
  }
  if (options.offline)
    throw Error(Code::kUnavailable,
                fmt::format("[hub] {} is not in the cache {}; with --offline it was expected there; "
                            "fetch it once without",
                            file.path, options.cache.string()));
  Download task{options.url + "/" + percent_encoded(file.path, "-._~/"), with_suffix(place, ".part"), file.size_bytes,
                file.size_bytes > 0};
  std::string found;
  for (bool again = true, first = true; again; first = false) {
    Downloaded got = download(task, env);
    if (!got.failure.empty()) unreachable(task.url, got.failure);
    again = first && got.resumed;  // parts of two files may be the reason
    found = sha256_file(task.to);
    if (found == file.sha256) {
      fs::rename(task.to, place);
      return;
    }
    bool pointer = fs::file_size(task.to) < 1024 && read_file(task.to).starts_with("version https://git-lfs");
    fs::remove(task.to);
    if (pointer) found = "that of a Git LFS pointer; the files lie elsewhere";
  }
  throw Error(
      Code::kInvalidInput,
      fmt::format("[hub] {} has the SHA-256 {}; {} was expected; it is not used; check --hub-url, or whether the "
                  "manifest is of the same time",
                  task.url, found, file.sha256));
}

void require_hash(const HubFile& file) {
  if (file.sha256.empty())
    throw Error(Code::kInvalidInput,
                fmt::format("[hub] {} has no SHA-256 in the manifest; one was expected; a file that "
                            "cannot be verified is not fetched",
                            file.path));
}

// What an archive may come to: models hardly shrink in it, tensors of zeros do.
UnpackLimits limits_for(const HubModel& model, const fs::path& archive) {
  auto packed = static_cast<int64_t>(fs::file_size(archive));
  return {.max_bytes = (int64_t{64} << 20) + 8 * (packed + model.file.size_bytes)};
}

std::vector<fs::path> test_data_below(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_directory() && entry.path().filename().string().starts_with("test_data"))
      found.push_back(entry.path());
  auto natural = [](const fs::path& a, const fs::path& b) {
    std::string x = a.string(), y = b.string();
    return std::pair(x.size(), x) < std::pair(y.size(), y);
  };
  std::sort(found.begin(), found.end(), natural);
  return found;
}

// The options with every empty field replaced by what stands for it.
HubOptions resolved(HubOptions o) {
  if (o.url.empty()) o.url = variable("SEQTO_HUB_URL");
  if (o.manifest.empty()) o.manifest = variable("SEQTO_HUB_MANIFEST");
  while (o.url.ends_with('/')) o.url.pop_back();
  if (o.manifest.empty()) o.manifest = o.url.empty() ? kZooManifest : o.url + "/" + kManifestName;
  if (o.url.empty()) o.url = kZooFiles;
  if (o.cache.empty()) o.cache = default_cache();
  return o;
}

// None where nothing is fetched and the cache cannot be written, as one that several machines share.
std::optional<FileLock> locked(const fs::path& path, const HubOptions& o, const Env& env) {
  if (o.offline && ::access(path.parent_path().c_str(), W_OK) != 0) return std::nullopt;
  return std::optional<FileLock>(std::in_place, path, env);
}

}  // namespace

std::vector<HubModel> list_hub(const HubOptions& given, const Env& env) {
  HubOptions o = resolved(given);
  fs::path copy = o.cache / fmt::format("manifest_{}.json", sha256_hex(o.manifest).substr(0, 16));
  const auto lock = locked(with_suffix(copy, ".lock"), o, env);
  if (!o.offline) {
    fs::path fresh = with_suffix(copy, ".part");
    fs::remove(fresh);  // it has no hash, so half of one is never gone on from
    Downloaded got = download({o.manifest, fresh, kMaxManifestBytes}, env);
    if (got.failure.empty()) {
      auto models = hub_from_json(read_file(fresh), o.manifest);
      fs::rename(fresh, copy);
      return models;
    }
    if (!fs::exists(copy)) unreachable(o.manifest, got.failure);
    env.log(LogLevel::kWarning, fmt::format("{}: {}; the list of last time is used", o.manifest, got.failure));
  }
  if (!fs::exists(copy))
    throw Error(Code::kUnavailable,
                fmt::format("[hub] no list of {} in the cache {}; with --offline one was expected; run "
                            "`seqto hub list` once without",
                            o.manifest, o.cache.string()));
  return hub_from_json(read_file(copy), copy.string());
}

HubFiles fetch_hub(const HubModel& model, bool test_data, const HubOptions& given, const Env& env) {
  HubOptions o = resolved(given);
  require_hash(model.file);
  HubFiles files{.model = place_of(model.file, o)};
  {
    const auto lock = locked(with_suffix(files.model, ".lock"), o, env);
    ensure(model.file, files.model, o, env);
  }
  if (!test_data) return files;
  if (!model.archive)
    throw Error(Code::kInvalidInput,
                fmt::format("[hub] {} has no archive with test data; model_with_data_path was expected in the manifest",
                            model.name));
  require_hash(*model.archive);
  fs::path archive = place_of(*model.archive, o);
  const auto lock = locked(with_suffix(archive, ".lock"), o, env);
  // The folder is made whole by a rename, so that its presence says that it is.
  fs::path folder = with_suffix(archive, ".unpacked"), half = with_suffix(archive, ".half");
  ensure(*model.archive, archive, o, env);
  if (!fs::exists(folder)) {
    fs::remove_all(half);
    unpack_tar_gz(archive, half, limits_for(model, archive), env);
    fs::rename(half, folder);
  }
  files.test_data = test_data_below(folder);
  return files;
}

bool names_hub_model(const std::string& asked) { return asked.starts_with(kHubPrefix); }

HubFiles fetch_model(const std::string& asked, bool test_data, const HubOptions& options, const Env& env) {
  if (!names_hub_model(asked)) return {.model = asked, .test_data = {}};
  const HubModel found = find_hub_model(list_hub(options, env), asked.substr(kHubPrefix.size()));
  HubFiles files = fetch_hub(found, test_data, options, env);
  env.log(LogLevel::kInfo, fmt::format("{}@{}: {}", found.name, found.opset, files.model.string()));
  return files;
}

std::vector<HubCheck> verify_hub(const HubOptions& given, const Env& env) {
  HubOptions o = resolved(given);
  std::vector<HubCheck> checks;
  if (!fs::exists(o.cache)) return checks;
  for (const auto& entry : fs::recursive_directory_iterator(o.cache)) {
    std::string name = entry.path().filename().string();
    bool hashed = entry.is_regular_file() && name.size() > 65 && name[64] == '_' &&
                  name.find_first_not_of("0123456789abcdef") == 64;
    bool whole = !name.ends_with(".part") && !name.ends_with(".lock");
    if (!hashed || !whole) continue;
    env.stop_if_cancelled("hub");
    std::string found = sha256_file(entry.path());
    checks.push_back({entry.path(), found == name.substr(0, 64), found});
  }
  std::sort(checks.begin(), checks.end(), [](const HubCheck& a, const HubCheck& b) { return a.file < b.file; });
  return checks;
}

}  // namespace seqto
