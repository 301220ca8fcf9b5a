// --config and --print-config: a word's flags from a file and back.
#pragma once

#include <functional>

#include "commands.h"

namespace seqto::cli {

// To be called before the word's other flags are added: they are then set from the file before they are used.
void add_config_flag(Command word);

// To be called after all others. `several`: the values of --device where more than one may be given.
void add_print_config_flag(Command word, const std::vector<std::string>* several = nullptr);

}  // namespace seqto::cli
