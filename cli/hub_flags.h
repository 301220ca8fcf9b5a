// Which hub and which cache; shared by hub and tune.
#pragma once

#include "commands.h"
#include "seqto/hub.h"

namespace seqto::cli {

void add_hub_flags(CLI::App* word, HubOptions& options);

}  // namespace seqto::cli
