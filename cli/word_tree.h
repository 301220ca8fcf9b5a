// The command line as plain values, read off the parser: what completions and the man page are made of.
#pragma once

#include <string>
#include <vector>

#include "parser.h"

namespace seqto::cli {

struct Flag {
  std::vector<std::string> names;    // "-o", "--output"; of a positional its name alone
  std::vector<std::string> aliases;  // older or other tools' names of a flag with a value
  std::string heading;
  std::string description;
  std::string type;                  // "TEXT", "INT", "FILE" ...; empty: takes no value
  std::vector<std::string> choices;  // values that have names; the type may allow others
  std::string standard;              // the default as text, may be empty
  bool required = false, repeated = false;
  char delimiter = 0;       // between several values in one argument
  bool takes_file = false;  // a path makes sense as its value

  bool in_detail() const { return heading.ends_with(kInDetail); }
};

struct Word {
  std::string path;  // "hub list"; empty for the program itself
  std::string description;
  std::vector<Flag> flags, positionals;
  std::vector<Word> words;
};

// Words that are not listed in --help are left out.
Word describe(Command app);

// One word alone, by its path from the program; it must exist.
Word describe(Command app, const std::vector<std::string>& path);

// The word itself and all below it.
std::vector<const Word*> all_words(const Word& root);

}  // namespace seqto::cli
