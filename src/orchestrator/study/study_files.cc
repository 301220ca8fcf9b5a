#include "orchestrator/study/remove_files.h"

#include <set>
#include <sstream>
#include <string>

#include "base/files.h"
#include "base/json.h"
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

void remove_study(const fs::path& dir) {
  const fs::path study = dir / "study.jsonl";
  if (!fs::is_regular_file(study)) return;
  for (const std::string& id : candidates(study)) {
    const fs::path plan = dir / "plans" / (id + ".json"), model = dir / "models" / (id + ".onnx");
    if (fs::is_regular_file(plan)) remove_stored(plan);
    fs::remove(plan);
    fs::remove(model);
    fs::remove(model.string() + ".data");
    fs::remove(dir / "own_corrections" / (id + ".npz"));
  }
  fs::remove(dir / kSelectedFile);
  fs::remove_all(dir / kSelectedFolder);
  fs::remove(dir / "asked.jsonl");
  fs::remove(dir / "told.jsonl");
  fs::remove(study);
}

}  // namespace seqto::internal
