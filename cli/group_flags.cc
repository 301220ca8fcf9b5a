#include "group_flags.h"

#include "word_flags.h"

namespace seqto::cli {

void add_group_flags(CLI::App* word, GroupFlags& f) {
  word->add_option("--group", f.merged, "PATTERN,PATTERN: layers that take one decision; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  word->add_option("--groups", f.file, "JSON file of groups, as `seqto inspect --json` prints them")
      ->check(CLI::ExistingFile);
}

GroupOptions GroupFlags::parsed() const {
  GroupOptions options;
  if (!file.empty()) options.together = groups_from_json(read_text(file));
  for (const std::string& patterns : merged) options.together.push_back(CLI::detail::split(patterns, ','));
  return options;
}

}  // namespace seqto::cli
