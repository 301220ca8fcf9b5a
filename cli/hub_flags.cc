#include "hub_flags.h"

#include <fmt/format.h>

namespace seqto::cli {

void add_hub_flags(CLI::App* word, HubOptions& o) {
  word->add_option("--hub-url", o.url,
                   "Where the hub's files lie; default: $SEQTO_HUB_URL, else the ONNX Model Zoo's mirror")
      ->type_name("URL");
  word->add_option("--hub-manifest", o.manifest, "The hub's list; default: $SEQTO_HUB_MANIFEST, else below --hub-url")
      ->type_name("URL");
  word->add_option("--hub-cache", o.cache, "Default: $SEQTO_HUB_CACHE, else seqto/hub in the user's cache folder")
      ->type_name("FOLDER");
  word->add_flag("--offline", o.offline, "Use what the hub's cache holds, and no network");
}

std::filesystem::path model_path(const std::string& model, const HubOptions& options, const Env& env) {
  constexpr std::string_view kPrefix = "hub:";
  if (!model.starts_with(kPrefix)) return model;
  HubModel found = find_hub_model(list_hub(options, env), model.substr(kPrefix.size()));
  HubFiles files = fetch_hub(found, false, options, env);
  env.log(LogLevel::kInfo, fmt::format("{}@{}: {}", found.name, found.opset, files.model.string()));
  return files.model;
}

}  // namespace seqto::cli
