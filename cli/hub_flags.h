// Which hub and which cache; shared by hub and tune.
#pragma once

#include "commands.h"
#include "seqto/hub.h"

namespace seqto::cli {

void add_hub_flags(CLI::App* word, HubOptions& options);

// "hub:NAME" or "hub:NAME@OPSET" becomes the path of the model in the cache, fetched when it is not there; anything
// else is a path already.
std::filesystem::path model_path(const std::string& model, const HubOptions& options, const Env& env);

}  // namespace seqto::cli
