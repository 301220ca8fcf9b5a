#include "seqto/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include "base/names.h"
#include "seqto/error.h"

namespace seqto {

std::vector<LayerId> expand_patterns(const std::vector<std::string>& patterns, const Model& model) {
  std::vector<bool> hit(model.graph.nodes.size());
  for (const std::string& pattern : patterns) {
    bool by_op = pattern.starts_with("op:");
    std::string text = by_op ? pattern.substr(3) : pattern;
    bool any = false;
    std::vector<std::string> subjects;
    for (size_t i = 0; i < model.graph.nodes.size(); ++i) {
      const Node& n = model.graph.nodes[i];
      const std::string& subject = by_op ? n.op_type : n.name;
      bool matches = text == subject || ::fnmatch(text.c_str(), subject.c_str(), 0) == 0;
      if (matches) hit[i] = any = true;
      subjects.push_back(subject);
    }
    if (any) continue;
    throw Error(Code::kUsage,
                fmt::format("[pattern] '{}' matches no {}; the nearest are: {}; correct the pattern", pattern,
                            by_op ? "op type" : "node", fmt::join(internal::nearest_names(text, subjects), ", ")));
  }
  std::vector<LayerId> result;
  for (size_t i = 0; i < hit.size(); ++i)
    if (hit[i]) result.push_back(model.graph.nodes[i].name);
  return result;
}

}  // namespace seqto
