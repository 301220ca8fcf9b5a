// What --help and --help-all print: a word's flags below the headings of what a user wants.
#pragma once

#include <string>
#include <vector>

#include "word_tree.h"

namespace seqto::cli {

inline constexpr size_t kHelpColumns = 100;

// `all`: also the flags in detail.
std::string help_text(const Word& word, bool all);

// docs/reference/cli.md: every word and flag. Flags that several words take are described once.
std::string reference_page(const Word& root);

// Flags by their headings that several words take, the same in each, and those of a word that it shares with none.
struct SharedFlags {
  std::vector<Flag> flags;
  bool holds(const Flag& flag) const;
};
SharedFlags shared_flags(const Word& root);

// The headings of these flags, each once, in the order in which they are read.
std::vector<std::string> headings_of(const std::vector<Flag>& flags);
// "-o, --output PATH".
std::string shown_name(const Flag& flag);
// Of "Input, in detail" what it is about: "Input".
std::string subject_of(const Flag& flag);
// The description with the named values, the default and other names of the flag.
std::string shown_text(const Flag& flag);

}  // namespace seqto::cli
