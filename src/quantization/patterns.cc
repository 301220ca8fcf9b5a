#include "seqto/patterns.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "seqto/error.h"

namespace seqto {
namespace {

size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      size_t next = std::min({row[j] + 1, row[j + 1] + 1, diagonal + (a[i] != b[j])});
      diagonal = row[j + 1];
      row[j + 1] = next;
    }
  }
  return row.back();
}

}  // namespace

std::vector<LayerId> expand_patterns(const std::vector<std::string>& patterns, const Model& model) {
  std::vector<bool> hit(model.graph.nodes.size());
  for (const std::string& pattern : patterns) {
    bool by_op = pattern.starts_with("op:");
    std::string text = by_op ? pattern.substr(3) : pattern;
    bool any = false;
    std::set<std::pair<size_t, std::string>> nearest;
    for (size_t i = 0; i < model.graph.nodes.size(); ++i) {
      const Node& n = model.graph.nodes[i];
      const std::string& subject = by_op ? n.op_type : n.name;
      bool matches = text == subject || ::fnmatch(text.c_str(), subject.c_str(), 0) == 0;
      if (matches) hit[i] = any = true;
      nearest.insert({edit_distance(text, subject), subject});
    }
    if (any) continue;
    std::vector<std::string> names;
    for (auto it = nearest.begin(); it != nearest.end() && names.size() < 3; ++it) names.push_back(it->second);
    throw Error(Code::kUsage, fmt::format("[pattern] '{}' matches no {}; the nearest are: {}; correct the pattern",
                                          pattern, by_op ? "op type" : "node", fmt::join(names, ", ")));
  }
  std::vector<LayerId> result;
  for (size_t i = 0; i < hit.size(); ++i)
    if (hit[i]) result.push_back(model.graph.nodes[i].name);
  return result;
}

}  // namespace seqto
