#include "hub_flags.h"

#include <fmt/format.h>

#include <filesystem>

#include "seqto/error.h"
#include "seqto/gate.h"
#include "seqto/metrics.h"

namespace seqto::cli {

void add_hub_flags(Command any, HubOptions& o) {
  const Command word = any.under("Model hub").in_detail();
  word.add_option("--hub-url", o.url,
                  "Where the hub's files lie; default: $SEQTO_HUB_URL, else the ONNX Model Zoo's mirror")
      .type_name("URL");
  word.add_option("--hub-manifest", o.manifest, "The hub's list; default: $SEQTO_HUB_MANIFEST, else below --hub-url")
      .type_name("URL");
  word.add_option("--hub-cache", o.cache, "Default: $SEQTO_HUB_CACHE, else seqto/hub in the user's cache folder")
      .type_name("FOLDER");
  word.add_flag("--offline", o.offline, "Use what the hub's cache holds, and no network");
}

namespace {

std::optional<StudyFiles> of_study(const std::string& asked) {
  const auto candidate = candidate_of(asked);
  if (!candidate) return {};
  return files_in_study(candidate->dir, candidate->id);
}

std::string written(const std::string& asked, const std::filesystem::path& file) {
  if (!file.empty()) return file.string();
  throw Error(Code::kInvalidInput, fmt::format("[study] {} found, which was not written; a candidate with a file "
                                               "expected; summary.json names the files",
                                               asked));
}

}  // namespace

std::optional<StudyCandidate> candidate_of(const std::string& asked) {
  const size_t colon = asked.rfind(':');
  if (colon == asked.npos || std::filesystem::exists(asked)) return {};
  const std::string dir = asked.substr(0, colon);
  if (!std::filesystem::exists(StudyFolder{dir}.summary())) return {};
  return StudyCandidate{dir, asked.substr(colon + 1)};
}

std::string plan_file(const std::string& asked) {
  const auto files = of_study(asked);
  return files ? written(asked, files->plan) : asked;
}

std::string model_file(const std::string& asked, const HubOptions& hub, const Context& context) {
  if (const auto files = of_study(asked)) return written(asked, files->model);
  return fetch_model(asked, false, hub, context.env).model.string();
}

}  // namespace seqto::cli
