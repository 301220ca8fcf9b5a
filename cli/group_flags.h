// Flags of groups of layers.
#pragma once

#include <string>
#include <vector>

#include "flags.h"
#include "seqto/plan.h"

namespace seqto::cli {

struct GroupFlags {
  std::vector<std::string> merged;  // "PATTERN,PATTERN"
  std::string file;
  // Throws Error{kInvalidInput} for a file of another form.
  GroupOptions parsed() const;
};
void add_group_flags(Command word, GroupFlags& flags);

}  // namespace seqto::cli
