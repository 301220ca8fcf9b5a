// --config and --print-config: a word's flags from a file and back.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "commands.h"

namespace seqto::cli {

// To be called before the word's other flags are added: they are then set from the file before they are used.
void add_config_flag(Command word);

// To be called after all others. `several`: the values of --device where more than one may be given.
void add_print_config_flag(Command word, const std::vector<std::string>* several = nullptr);

// Sets flags of `word`, which is on no command line, from the file.
void read_config_flags(Command word, const std::filesystem::path& file);

// The flags that were given, as a file that --config reads in the study's folder: its paths hold from anywhere, and the
// folder is the output. `several` as above.
std::string config_of_study(Command word, const std::vector<std::string>& several);

// The flags that were given and that the word `other` beside this one has too, but for the output, as they are typed:
// " --data x.npz --samples 50".
std::string given_for(Command word, const std::string& other);

}  // namespace seqto::cli
