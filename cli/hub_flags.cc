#include "hub_flags.h"

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

std::string model_file(const std::string& asked, const HubOptions& hub, const Context& context) {
  return fetch_model(asked, false, hub, context.env).model.string();
}

}  // namespace seqto::cli
