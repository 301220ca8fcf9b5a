#include "group_flags.h"

#include <sstream>

#include "word_flags.h"

namespace seqto::cli {
namespace {

std::vector<std::string> split_at_commas(const std::string& text) {
  if (text.empty()) return {""};
  std::vector<std::string> parts;
  std::stringstream rest(text);
  for (std::string part; std::getline(rest, part, ',');) parts.push_back(part);
  return parts;
}

}  // namespace

void add_group_flags(Command any, GroupFlags& f) {
  const Command word = any.under("Search").in_detail();
  word.add_option("--group", f.merged, "PATTERN,PATTERN: layers that take one decision; may be repeated")
      .expected_once_each()
      .type_name("PATTERNS");
  word.add_option("--groups", f.file, "JSON file of groups, as `seqto inspect --json` prints them").check_file();
}

GroupOptions GroupFlags::parsed() const {
  GroupOptions options;
  if (!file.empty()) options.together = groups_from_json(read_text(file));
  for (const std::string& patterns : merged) options.together.push_back(split_at_commas(patterns));
  return options;
}

}  // namespace seqto::cli
