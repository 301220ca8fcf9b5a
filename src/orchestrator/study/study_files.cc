#include "orchestrator/study/study_files.h"

#include <fcntl.h>

#include <set>
#include <sstream>
#include <string>

#include "base/descriptor.h"
#include "base/file_lock.h"
#include "base/files.h"
#include "base/json.h"
#include "data/datasets.h"
#include "orchestrator/study/summarize.h"

namespace seqto::internal {
namespace {

namespace fs = std::filesystem;

// A name from a file that anybody may have written: not a path to elsewhere.
bool is_name(const std::string& name) { return !name.empty() && fs::path(name).filename() == name && name != ".."; }

// Of a study that may be torn or of another version.
std::set<std::string> candidates(const fs::path& study) {
  std::set<std::string> ids;
  std::istringstream lines(read_file(study));
  for (std::string line; std::getline(lines, line);) {
    const auto value = parse_json_if_any(line);
    if (!value.is_object() || !value.contains("trial") || !value["trial"].is_object()) continue;
    const auto id = value["trial"].find("id");
    if (id != value["trial"].end() && id->is_string() && is_name(*id)) ids.insert(*id);
  }
  return ids;
}

// The files of ranges, corrections and the rewritten model that a plan's recipe names.
void remove_stored(const fs::path& plan) {
  const auto value = parse_json_if_any(read_file(plan));
  if (!value.is_object() || !value.contains("recipe") || !value["recipe"].is_object()) return;
  const auto remove = [&](const nlohmann::json& stored) {
    if (stored.is_object() && stored.contains("file") && stored["file"].is_string() && is_name(stored["file"]))
      fs::remove(plan.parent_path() / stored["file"].get<std::string>());
  };
  for (const char* key : {"ranges", "corrections"})
    for (const auto& stored : value["recipe"].value(key, nlohmann::json::array())) remove(stored);
  remove(value["recipe"].value("rewritten", nlohmann::json()));
}

}  // namespace

fs::path asked_file(const fs::path& dir) { return dir / "asked.jsonl"; }
fs::path told_file(const fs::path& dir) { return dir / "told.jsonl"; }
fs::path corrections_file(const fs::path& dir) { return dir / "corrections.npz"; }
fs::path own_corrections_file(const fs::path& dir, const std::string& id) {
  return dir / "own_corrections" / (id + ".npz");
}

bool is_begun(const fs::path& dir) {
  const fs::path file = StudyFolder{dir}.study();
  return fs::exists(file) && read_file(file).find('\n') != std::string::npos;
}

void remove_study(const fs::path& dir) {
  const StudyFolder folder{dir};
  const fs::path study = folder.study();
  if (!fs::is_regular_file(study)) return;
  const Descriptor lock(::open(study.c_str(), O_RDWR | O_CLOEXEC));
  if (lock.get() >= 0) lock_study(lock.get(), study);
  for (const std::string& id : candidates(study)) {
    const fs::path plan = folder.plan(id), model = folder.model(id);
    if (fs::is_regular_file(plan)) remove_stored(plan);
    fs::remove(plan);
    fs::remove(model);
    fs::remove(model.string() + ".data");
    fs::remove(own_corrections_file(dir, id));
  }
  for (const char* name : kFilesBeside) fs::remove(folder.models() / name);
  fs::remove(folder.selected());
  fs::remove_all(folder.selected_pair());
  fs::remove(asked_file(dir));
  fs::remove(told_file(dir));
  fs::remove(folder.summary());
  fs::remove(folder.report());
  fs::remove(corrections_file(dir));
  fs::remove(study);
}

}  // namespace seqto::internal
