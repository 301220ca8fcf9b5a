// The list of a hub: ONNX_HUB_MANIFEST.json, https://github.com/onnx/onnx/blob/v1.16.0/docs/Hub.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "seqto/hub.h"

namespace seqto::internal {

inline constexpr std::string_view kHubPrefix = "hub:";  // of what a user names as a model

// `source` is named in errors. Throws Error{kInvalidInput} for what is no manifest, and for paths that leave the hub.
std::vector<HubModel> hub_from_json(const std::string& text, const std::string& source);

}  // namespace seqto::internal
